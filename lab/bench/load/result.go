package load

// Result is what came of a plan. Latencies are in microseconds; in a race they are those of whole rounds.
type Result struct {
	Requests  int64       `json:"requests"` // answered, of those that belong to the measured time
	PerSecond float64     `json:"perSecond"`
	Seconds   float64     `json:"seconds"`  // the measured time
	Statuses  map[int]int `json:"statuses"` // of Requests

	P50Micros  float64 `json:"p50Micros"`
	P90Micros  float64 `json:"p90Micros"`
	P99Micros  float64 `json:"p99Micros"`
	P999Micros float64 `json:"p999Micros"`
	MaxMicros  float64 `json:"maxMicros"`

	// of a race: from the first request's sending to the last answer, round by round
	RoundMicros []float64 `json:"roundMicros,omitempty"`

	// of an open loop: fell due, and found no connection until the end
	Unsent int64 `json:"unsent"`
	// of an open loop: how late our own clock was; it is part of the latencies
	LateP99Micros float64 `json:"lateP99Micros,omitzero"`

	Unexpected      int64  `json:"unexpected"` // answers with another status than expected, in the warm-up too
	Lost            int64  `json:"lost"`       // requests without an answer, in the warm-up too
	FirstUnexpected string `json:"firstUnexpected,omitzero"`

	CPUSeconds float64 `json:"cpuSeconds"` // of this process, user and system, in the measured time
}

// tally is what one client has counted.
type tally struct {
	statuses   [maxStatus + 1]int64
	latencies  histogram
	unexpected int64
	lost       int64
	unsent     int64
}

func (t *tally) add(other *tally) {
	for status, n := range other.statuses {
		t.statuses[status] += n
	}
	t.latencies.add(&other.latencies)
	t.unexpected += other.unexpected
	t.lost += other.lost
	t.unsent += other.unsent
}

func (t *tally) result() Result {
	r := Result{Statuses: map[int]int{}, Unsent: t.unsent, Unexpected: t.unexpected, Lost: t.lost}
	for status, n := range t.statuses {
		if n > 0 {
			r.Statuses[status] = int(n)
			r.Requests += n
		}
	}
	h := &t.latencies
	r.P50Micros, r.P90Micros, r.P99Micros = h.quantile(0.5), h.quantile(0.9), h.quantile(0.99)
	r.P999Micros, r.MaxMicros = h.quantile(0.999), h.quantile(1)
	return r
}
