-- Takes up to so many free units out of a bucket, or puts units into it.
--
-- KEYS[1] stock
-- ARGV: units; negative puts in
--       epoch: another life of the bucket was made true from the ledger, and
--       what is to be moved is in its counter already, or not
--       now in ms, if ledger and counter will differ for a while (else '')
--       name of this move: a request that is carried out twice moves once
-- Returns the units that were taken; nothing if the bucket is not loaded, or
-- in another life.
local held = redis.call('HMGET', KEYS[1], 'left', 'epoch')
if not held[1] or held[2] ~= ARGV[2] then return false end
local done = redis.call('HGET', KEYS[1], 'm:' .. ARGV[4])
if done then return tonumber(done) end
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'moving', ARGV[3]) end
local units = math.min(tonumber(ARGV[1]), math.max(tonumber(held[1]), 0))
-- Lua writes a negated zero as '-0', which is no integer to Redis.
if units ~= 0 then
  redis.call('HINCRBY', KEYS[1], 'left', -units)
  redis.call('HSET', KEYS[1], 'm:' .. ARGV[4], units)
end
return units
