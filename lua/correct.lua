-- Corrects a counter that differs from the ledger, unless it moved since it
-- was read: then the difference was computed from something that is gone.
-- Too high is dangerous and lowered at once; too low only sells less, and is
-- raised when the same gap is seen again after a while.
--
-- KEYS[1] stock
-- ARGV: left and taken as they were read, gap (gate minus ledger),
--       now in ms, least age of a gap in ms, longest move of units in ms
local left, taken, gap = ARGV[1], ARGV[2], tonumber(ARGV[3])
local now, age = tonumber(ARGV[4]), tonumber(ARGV[5])
local seen = redis.call('HMGET', KEYS[1], 'left', 'taken', 'gap', 'gap_since', 'moving')
if seen[1] ~= left or seen[2] ~= taken then return 'MOVED' end
if gap == 0 then
  if seen[3] then redis.call('HDEL', KEYS[1], 'gap', 'gap_since') end
  return 'AGREES'
end
if gap > 0 then
  -- Units that are claimed already are the cap's to refuse: a counter below
  -- zero is one that nobody can read.
  gap = math.min(gap, tonumber(left))
  if gap == 0 then return 'MOVED' end
  redis.call('HINCRBY', KEYS[1], 'left', -gap)
  redis.call('HDEL', KEYS[1], 'gap', 'gap_since')
  return 'LOWERED'
end
-- Who moves units may still be on the way between counter and ledger. A gap that
-- outlasts the longest move is of no move that is under way, however many follow.
if seen[5] and now - tonumber(seen[5]) < tonumber(ARGV[6]) then age = tonumber(ARGV[6]) end
if seen[3] and tonumber(seen[3]) == gap then
  if now - tonumber(seen[4]) < age then return 'NOTED' end
  redis.call('HINCRBY', KEYS[1], 'left', -gap)
  redis.call('HDEL', KEYS[1], 'gap', 'gap_since')
  return 'RAISED'
end
redis.call('HSET', KEYS[1], 'gap', gap, 'gap_since', ARGV[4])
return 'NOTED'
