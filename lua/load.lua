-- Makes a bucket what the ledger says it is, unless a later life has begun. A
-- life has one writer: whoever repeats itself changes nothing.
--
-- KEYS[1] stock  KEYS[2] due  KEYS[3] late
-- ARGV: epoch, late entries that there were at least, fields of the stock as
--       name and value, '', deadlines as claim and ms
-- Returns 1 if it is in this life now.
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) >= tonumber(ARGV[1]) then
  return epoch == ARGV[1] and 1 or 0
end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
local n = 3
while ARGV[n] ~= '' do
  redis.call('HSET', KEYS[1], ARGV[n], ARGV[n + 1])
  n = n + 2
end
for due = n + 1, #ARGV, 2 do
  redis.call('ZADD', KEYS[2], ARGV[due + 1], ARGV[due])
end
local late = tonumber(redis.call('HGET', KEYS[3], 'n') or 0)
if late < tonumber(ARGV[2]) then redis.call('HSET', KEYS[3], 'n', ARGV[2]) end
return 1
