-- Makes a bucket what the ledger says it is, unless a later life has begun.
--
-- KEYS[1] stock  KEYS[2] due
-- ARGV: epoch, fields of the stock as name and value, '', deadlines as claim
--       and ms
-- Returns 1 if it did.
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch and tonumber(epoch) > tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1])
local n = 2
while ARGV[n] ~= '' do
  redis.call('HSET', KEYS[1], ARGV[n], ARGV[n + 1])
  n = n + 2
end
for due = n + 1, #ARGV, 2 do
  redis.call('ZADD', KEYS[2], ARGV[due + 1], ARGV[due])
end
return 1
