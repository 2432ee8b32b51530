-- Charges ARGV[1] to every key, or to none. ARGV[2i], ARGV[2i+1]: how many the
-- rule of KEYS[i] allows, and the width of a bucket in milliseconds.
-- After them, where the caller may hold a slice: the replica's mark, the number and the rest of
-- the slice that it gives back, how many it wants now, the number of that slice, and 1 to charge
-- even where a rule is exceeded.
-- Answers {1 or 0, limit, remaining, milliseconds until some is given back} of
-- the tightest rule, then the slice that was taken, 0 for none, and the milliseconds
-- until the first of the rules' buckets is over: a slice counts in the buckets of now; and
-- which rule is the tightest, from 1 on.
--
-- A key is a hash: a field per bucket (its number since the epoch), `n` = their
-- sum, `at` = the bucket they were last tidied in, `old` = the oldest of them, and a
-- field per replica (in networks: and caller) with the number and bucket of its last slice. The rest is given
-- back only while that stands there: never twice, whatever the network repeats.
-- The clock is the server's, so that replicas agree.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local charge = tonumber(ARGV[1])
local extra = 2 * #KEYS + 1
local replica, back = ARGV[extra + 1], tonumber(ARGV[extra + 3]) or 0
local want = tonumber(ARGV[extra + 4]) or 0
local spent = ARGV[extra + 6] == '1'
local life = 1000

local function tidy(key, bucket)
  local fields = redis.call('HGETALL', key)
  local sum, oldest, gone = 0, bucket, {}
  for i = 1, #fields, 2 do
    local b = tonumber(fields[i])
    if b then
      if b < bucket - 60 then
        gone[#gone + 1] = fields[i]
      else
        sum = sum + tonumber(fields[i + 1])
        if b < oldest then oldest = b end
      end
    elseif string.sub(fields[i], 1, 1) == '@' then
      local taken = tonumber(string.match(fields[i + 1], ':(%d+)$'))
      if taken < bucket - 60 then gone[#gone + 1] = fields[i] end
    end
  end
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  redis.call('HSET', key, 'n', sum, 'at', bucket, 'old', oldest)
  return sum, oldest
end

local function give(key)
  local mark = redis.call('HGET', key, '@' .. replica)
  if not mark then return end
  local number, taken = string.match(mark, '^(%d+):(%d+)$')
  if number ~= ARGV[extra + 2] then return end
  redis.call('HDEL', key, '@' .. replica)
  if tonumber(redis.call('HGET', key, taken) or 0) < back then return end
  redis.call('HINCRBY', key, taken, -back)
  redis.call('HINCRBY', key, 'n', -back)
end

local tightest, allowed = nil, 1
for i, key in ipairs(KEYS) do
  local limit, width = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local bucket = math.floor(now / width)
  life = math.min(life, (bucket + 1) * width - now)
  if back > 0 then give(key) end
  local state = redis.call('HMGET', key, 'n', 'at', 'old')
  local used, oldest = tonumber(state[1]), tonumber(state[3])
  if tonumber(state[2]) ~= bucket then
    used, oldest = tidy(key, bucket)
    -- Some seconds more: the embedded Redis shortens lives a second at a time.
    redis.call('PEXPIRE', key, 62 * width + 5000)
  end
  local rule = {limit, limit - used, (oldest + 61) * width - now, i}
  if used + charge > limit and not spent then
    if allowed == 1 then tightest = rule end
    allowed = 0
  elseif allowed == 1 and (tightest == nil or rule[2] < tightest[2]) then
    tightest = rule
  end
end

local slice = 0
if allowed == 1 then
  -- The tightest rule has the least left. A slice is a small part of that, and where
  -- little is left there is none: the last charges are counted here, one by one.
  local left = tightest[2] - charge
  if left >= 128 and life > 1 then slice = math.min(want, math.floor(left / 32)) end
  charge = charge + slice
  for i, key in ipairs(KEYS) do
    local bucket = string.format('%d', math.floor(now / tonumber(ARGV[2 * i + 1])))
    if charge ~= 0 then
      redis.call('HINCRBY', key, bucket, charge)
      redis.call('HINCRBY', key, 'n', charge)
    end
    if slice > 0 then redis.call('HSET', key, '@' .. replica, ARGV[extra + 5] .. ':' .. bucket) end
  end
  tightest[2] = tightest[2] - charge
end
if tightest[2] < 0 then tightest[2] = 0 end
return {allowed, tightest[1], tightest[2], tightest[3], slice, life, tightest[4]}
