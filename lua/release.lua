-- Ends a hold. Twice is the same as once: only who removes the deadline acts.
--
-- KEYS[1] stock  KEYS[2] due
-- ARGV: claim, digest, 'return' or 'keep' (its units),
--       'spent'   the shopper had the chance and does not get a second one
--       'forget'  the shopper may claim again; the same key is the same claim
--       'erase'   a mark that led nowhere, as if it had never been made:
--                 the one of this turn, not one that was made since
--       turn (only to erase)
-- Returns 1 if this call ended it.
local claim, digest, units, shopper_is = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local record = redis.call('HGET', KEYS[1], 'c:' .. digest)
if shopper_is == 'erase' then
  local turn = record and string.match(record, '^%S+ %d+ %d+ (%d+) ')
  if turn ~= ARGV[5] then return 0 end
end
if redis.call('ZREM', KEYS[2], claim) == 0 then return 0 end
-- The hash was lost: what is left of it is for recovery to make true.
if not record then return 0 end
local of, quantity, here, shopper = string.match(record, '^(%S+) (%d+) (%d+) %d+ %d+ (.*)$')
if of ~= claim then return 0 end
if units == 'return' then redis.call('HINCRBY', KEYS[1], 'left', here) end
if shopper_is ~= 'spent' then
  local mine = redis.call('HGET', KEYS[1], 'u:' .. shopper)
  if mine then
    local held, digests = string.match(mine, '^(%d+)(.*)$')
    held = tonumber(held) - tonumber(quantity)
    if held > 0 then
      digests = string.gsub(digests, ' ' .. digest, '')
      redis.call('HSET', KEYS[1], 'u:' .. shopper, held .. digests)
    else
      redis.call('HDEL', KEYS[1], 'u:' .. shopper)
    end
  end
  if shopper_is == 'erase' then redis.call('HDEL', KEYS[1], 'c:' .. digest) end
end
return 1
