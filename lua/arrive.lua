-- The place of a late entry among those of its bucket, from 1. The same pass
-- keeps its place, however often it taps.
--
-- KEYS[1] late  hash: 'n' and 'p:<pass>'
-- ARGV: pass
local place = redis.call('HGET', KEYS[1], 'p:' .. ARGV[1])
if place then return tonumber(place) end
place = redis.call('HINCRBY', KEYS[1], 'n', 1)
redis.call('HSET', KEYS[1], 'p:' .. ARGV[1], place)
return place
