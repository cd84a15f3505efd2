package load

import (
	"math"
	"math/bits"
	"time"
)

// A duration falls into one of 64 equal buckets of its power of two. The middle of a bucket is off by 0.8 % at most.
const (
	fineBits = 6
	fine     = 1 << fineBits
	// Beyond 2^37 ns (137 s) there is one last bucket; the maximum is exact in any case.
	octaves = 37 - fineBits + 1
)

// histogram counts durations in fixed memory. The zero value is ready.
type histogram struct {
	buckets [octaves * fine]int64
	count   int64
	max     time.Duration
}

func (h *histogram) record(d time.Duration) {
	h.buckets[bucketOf(d)]++
	h.count++
	h.max = max(h.max, d)
}

func (h *histogram) add(other *histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.count += other.count
	h.max = max(h.max, other.max)
}

// quantile is the least duration, in microseconds, that a share q of all does not exceed.
func (h *histogram) quantile(q float64) float64 {
	rank := max(int64(math.Ceil(q*float64(h.count))), 1)
	if rank >= h.count {
		return micros(h.max)
	}
	for i, n := range h.buckets {
		if rank -= n; rank <= 0 {
			return micros(min(middleOf(i), h.max))
		}
	}
	return micros(h.max)
}

func bucketOf(d time.Duration) int {
	if d < fine {
		return int(max(d, 0))
	}
	octave := bits.Len64(uint64(d)) - fineBits // 1 for the first beyond the exact ones
	if octave >= octaves {
		return octaves*fine - 1
	}
	return octave*fine + int(d>>(octave-1))&(fine-1)
}

func middleOf(bucket int) time.Duration {
	octave, at := bucket/fine, time.Duration(bucket%fine)
	if octave == 0 {
		return at
	}
	width := time.Duration(1) << (octave - 1)
	return (fine+at)*width + width/2
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
