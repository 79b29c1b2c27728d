-- Ends holds. Twice is the same as once: only who removes a deadline acts.
--
-- KEYS[1] stock  KEYS[2] due
-- ARGV: 'return' or 'keep' (their units),
--       'spent'   the shopper had the chance and does not get a second one
--       'forget'  the shopper may claim again; the same key is the same claim
--       'erase'   a mark that led nowhere, as if it had never been made:
--                 the one of this turn, not one that was made since
--       turn ('' unless to erase)
--       claim, digest, of each hold
-- Returns for each 1 if this call ended it, else 0.
local units, shopper_is, turn = ARGV[1], ARGV[2], ARGV[3]

local function forget(shopper, digest, quantity)
  local mine = redis.call('HGET', KEYS[1], 'u:' .. shopper)
  if not mine then return end
  local held, digests = string.match(mine, '^(%d+)(.*)$')
  held = tonumber(held) - tonumber(quantity)
  if held > 0 then
    digests = string.gsub(digests, ' ' .. digest, '')
    redis.call('HSET', KEYS[1], 'u:' .. shopper, held .. digests)
  else
    redis.call('HDEL', KEYS[1], 'u:' .. shopper)
  end
end

local function release(claim, digest)
  local record = redis.call('HGET', KEYS[1], 'c:' .. digest)
  if shopper_is == 'erase' then
    local of_turn = record and string.match(record, '^%S+ %d+ %d+ (%d+) ')
    if of_turn ~= turn then return 0 end
  end
  if redis.call('ZREM', KEYS[2], claim) == 0 then return 0 end
  -- The hash was lost: what is left of it is for recovery to make true.
  if not record then return 0 end
  local of, quantity, here, shopper = string.match(record, '^(%S+) (%d+) (%d+) %d+ %d+ (.*)$')
  if of ~= claim then return 0 end
  if units == 'return' then redis.call('HINCRBY', KEYS[1], 'left', here) end
  if shopper_is ~= 'spent' then
    forget(shopper, digest, quantity)
    if shopper_is == 'erase' then redis.call('HDEL', KEYS[1], 'c:' .. digest) end
  end
  return 1
end

local ended = {}
for i = 4, #ARGV, 2 do ended[#ended + 1] = release(ARGV[i], ARGV[i + 1]) end
return ended
