-- Takes up to so many free units out of a bucket, or puts units into it.
--
-- KEYS[1] stock
-- ARGV: units; negative puts in
-- Returns the units that were taken; nothing if the bucket is not loaded.
local left = redis.call('HGET', KEYS[1], 'left')
if not left then return false end
local units = math.min(tonumber(ARGV[1]), math.max(tonumber(left), 0))
-- Lua writes a negated zero as '-0', which is no integer to Redis.
if units ~= 0 then redis.call('HINCRBY', KEYS[1], 'left', -units) end
return units
