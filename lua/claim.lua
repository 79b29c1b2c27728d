-- Claims units of one bucket, or marks a shopper whose units are in another.
--
-- This text is the key to its bucket. Bucket and epoch are part of it, so its
-- SHA is known to the one step that made the counter true and loaded it; a
-- server that was restarted or promoted answers NOSCRIPT, and nobody loads it
-- again for that. The epoch in the hash guards against the way back: an old
-- primary that still has an old script.
local BUCKET, EPOCH = '@BUCKET@', '@EPOCH@'

-- KEYS[1] stock  hash: left, taken, epoch, 'u:<shopper>', 'c:<digest>'
-- KEYS[2] due    sorted set: claim -> pay_by in ms
-- KEYS[3] rate   counter of this second (race mode)
-- ARGV: shopper, claim, digest, quantity, limit, pay_by, 'take' or 'mark',
--       claims a second (0: no bound),
--       turn: the mark that leads here, or that this mark replaces (0: none)
--
-- u: '<units> <digests of the claims, the newest last>'
-- c: '<claim> <quantity> <units taken here> <turn> <pay_by> <shopper>'
-- n: the newest turn of a claim that found nothing here
--
-- Turns are fencing tokens: a bucket numbers its marks, and a bucket that had
-- nothing for a turn stays empty for it. So who moves a mark on knows that
-- nothing is taken where it led before, whoever else is on the way there.
local shopper, claim, digest = ARGV[1], ARGV[2], ARGV[3]
local quantity, limit, pay_by = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6]
local marks, rate, turn = ARGV[7] == 'mark', tonumber(ARGV[8]), tonumber(ARGV[9])

local held = redis.call('HMGET', KEYS[1], 'left', 'taken', 'epoch', 'u:' .. shopper, 'c:' .. digest)
local left, epoch, mine, same = held[1], held[3], held[4], held[5]
if not left then return {'NOT_READY'} end
if epoch ~= EPOCH then return {'STALE'} end
left = tonumber(left)

local units, digests = 0, ''
if mine then
  units, digests = string.match(mine, '^(%d+)(.*)$')
  units = tonumber(units)
end
if same then
  local of, was, here, marked = string.match(same, '^(%S+) (%d+) (%d+) (%d+) ')
  -- A mark is moved on only by who found its bucket empty.
  if not (marks and here == '0' and turn > 0 and tonumber(marked) == turn) then
    return {'SAME', same}
  end
  redis.call('ZREM', KEYS[2], of)
  local counted
  digests, counted = string.gsub(digests, ' ' .. digest, '')
  units = units - counted * tonumber(was)
elseif mine and units + quantity > limit then
  local newest = string.match(digests, '(%S+)$')
  return {'HOLDS', redis.call('HGET', KEYS[1], 'c:' .. newest) or '', tostring(units)}
end

if rate > 0 then
  local n = redis.call('INCR', KEYS[3])
  if n == 1 then redis.call('PEXPIRE', KEYS[3], 1000) end
  if n > rate then return {'BUSY'} end
end

local here = quantity
if marks then
  here = 0
  turn = redis.call('HINCRBY', KEYS[1], 'turn', 1)
elseif turn > 0 then
  local refused = tonumber(redis.call('HGET', KEYS[1], 'n:' .. digest) or 0)
  if turn <= refused then return {'EMPTY'} end
  if left < quantity then
    redis.call('HSET', KEYS[1], 'n:' .. digest, turn)
    return {'EMPTY'}
  end
elseif left < quantity then
  return {'EMPTY'}
end
local record = claim .. ' ' .. quantity .. ' ' .. here .. ' ' .. turn .. ' ' .. pay_by
  .. ' ' .. shopper
redis.call('HSET', KEYS[1],
  'left', left - here, 'taken', tonumber(held[2]) + here,
  'u:' .. shopper, units + quantity .. digests .. ' ' .. digest, 'c:' .. digest, record)
redis.call('ZADD', KEYS[2], pay_by, claim)
return {'CLAIMED', record}
