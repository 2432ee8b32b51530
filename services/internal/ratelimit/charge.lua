-- Charges ARGV[1] to every key, or to none. ARGV[2i], ARGV[2i+1]: how many the
-- rule of KEYS[i] allows, and the width of a bucket in milliseconds.
-- Answers {1 or 0, limit, remaining, milliseconds until some is given back} of
-- the tightest rule.
--
-- A key is a hash: a field per bucket (its number since the epoch), `n` = their
-- sum, `at` = the bucket they were last tidied in, `old` = the oldest of them.
-- The clock is the server's, so that replicas agree.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local charge = tonumber(ARGV[1])

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
    end
  end
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  redis.call('HSET', key, 'n', sum, 'at', bucket, 'old', oldest)
  return sum, oldest
end

local tightest, allowed = nil, 1
for i, key in ipairs(KEYS) do
  local limit, width = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local bucket = math.floor(now / width)
  local state = redis.call('HMGET', key, 'n', 'at', 'old')
  local used, oldest = tonumber(state[1]), tonumber(state[3])
  if tonumber(state[2]) ~= bucket then
    used, oldest = tidy(key, bucket)
    -- Some seconds more: the embedded Redis shortens lives a second at a time.
    redis.call('PEXPIRE', key, 62 * width + 5000)
  end
  local rule = {limit, limit - used, (oldest + 61) * width - now}
  if used + charge > limit then
    if allowed == 1 then tightest = rule end
    allowed = 0
  elseif allowed == 1 and (tightest == nil or rule[2] < tightest[2]) then
    tightest = rule
  end
end

if allowed == 1 then
  for i, key in ipairs(KEYS) do
    local bucket = math.floor(now / tonumber(ARGV[2 * i + 1]))
    redis.call('HINCRBY', key, string.format('%d', bucket), charge)
    redis.call('HINCRBY', key, 'n', charge)
  end
  tightest[2] = tightest[2] - charge
end
if tightest[2] < 0 then tightest[2] = 0 end
return {allowed, tightest[1], tightest[2], tightest[3]}
