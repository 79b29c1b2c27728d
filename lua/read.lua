-- A whole bucket at one moment. A script, not a transaction: when a slot has
-- moved, EXEC hides where to, and a single command says it.
--
-- KEYS[1] stock  KEYS[2] due
-- Returns the fields of the stock, and the claims that have a deadline.
return {redis.call('HGETALL', KEYS[1]), redis.call('ZRANGE', KEYS[2], 0, -1)}
