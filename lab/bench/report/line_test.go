package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMedianIsTheMiddleOrHalfwayBetweenTheMiddleTwo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		samples []float64
		want    Summary
		any     bool
	}{
		"none": {},
		"one":  {[]float64{7}, Summary{1, 7, 7, 7}, true},
		"even": {[]float64{4, 1, 3, 2}, Summary{4, 2.5, 1, 4}, true},
		"odd":  {[]float64{100, 1, 3}, Summary{3, 3, 1, 100}, true},
		"huge": {[]float64{1.6e308, 1.6e308}, Summary{2, 1.6e308, 1.6e308, 1.6e308}, true},
	} {
		got, some := Summarize(c.samples)
		if some != c.any {
			t.Errorf("%s: there is a summary: %t", name, some)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestSummaryLeavesSamplesInTheOrderOfTheRounds(t *testing.T) {
	t.Parallel()
	samples := []float64{3, 1, 2}
	Summarize(samples)
	if diff := cmp.Diff([]float64{3, 1, 2}, samples); diff != "" {
		t.Error(diff)
	}
}

func TestDroppedSliceCountsAndIsNoSample(t *testing.T) {
	t.Parallel()
	var l Line
	l.Keep(2)
	l.Drop()
	l.Keep(4)
	if s, _ := l.Summary(); s.Median != 3 || s.Count != 2 || l.Dropped != 1 {
		t.Errorf("median %v of %d samples, %d dropped, want 3 of 2, 1 dropped", s.Median, s.Count, l.Dropped)
	}
}

func TestRatioIsTakenRoundByRound(t *testing.T) {
	t.Parallel()
	// The machine slows down by half: each round says 2, the medians alone would say 2.5.
	ratio := PairUp("", []float64{40, 20, 10}, []float64{20, 10, 5})
	if s, _ := ratio.Summary(); s.Low != 2 || s.High != 2 || s.Median != 2 {
		t.Errorf("%v, want 2 throughout", s)
	}
	ratio = PairUp("", []float64{40, 20, 30}, []float64{8, 10, 30})
	if diff := cmp.Diff([]float64{5, 2, 1}, ratio.Samples()); diff != "" {
		t.Error(diff)
	}
	if s, _ := ratio.Summary(); s.Median != 2 {
		t.Errorf("median %v, want that of the quotients, 2", s.Median)
	}
}

func TestRoundWithoutBothSidesHasNoRatio(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		numerators, denominators []float64
		want                     []float64
		dropped                  int
	}{
		"a dropped numerator":   {[]float64{Dropped(), 6}, []float64{1, 2}, []float64{3}, 1},
		"a dropped denominator": {[]float64{1, 6}, []float64{Dropped(), 2}, []float64{3}, 1},
		"more numerators":       {[]float64{1, 2, 3, 4}, []float64{1, 1}, []float64{1, 2}, 2},
		"more denominators":     {[]float64{1}, []float64{2, 3}, []float64{0.5}, 1},
		"divided by nothing":    {[]float64{1, 0}, []float64{0, 0}, []float64{}, 2},
		"none at all":           {nil, nil, []float64{}, 0},
	} {
		ratio := PairUp("", c.numerators, c.denominators)
		if diff := cmp.Diff(c.want, ratio.Samples()); diff != "" || ratio.Dropped != c.dropped {
			t.Errorf("%s: %d dropped, want %d; %s", name, ratio.Dropped, c.dropped, diff)
		}
	}
}

func TestBarIsJudgedByTheMedianAndOnlyIfItWasRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		op      Op
		samples []float64
		want    Verdict
	}{
		"at least, reached":         {AtLeast, []float64{1, 10, 11}, Met},
		"at least, a hair short":    {AtLeast, []float64{1, 9.9999999, 11}, Missed},
		"at most, reached":          {AtMost, []float64{1, 10, 11}, Met},
		"at most, a hair above":     {AtMost, []float64{1, 10.0000001, 11}, Missed},
		"at least, nothing kept":    {AtLeast, nil, NotRun},
		"at most, nothing kept":     {AtMost, []float64{}, NotRun},
		"no side at all is not met": {"==", []float64{10}, Missed},
	} {
		if got := (Bar{Op: c.op, Value: 10}).Of(c.samples).Verdict(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestFiguresKeepThreeDigits(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{
		0: "0", 0.00012345: "0.000123", 0.0949: "0.0949", 0.949: "0.949", 0.95: "0.950", 1.3249: "1.32", 12.34: "12.3",
		99.96: "100",
		123.4: "123", 999.6: "1 000", 1234.5: "1 234", 1234567: "1 234 567", -1234567: "-1 234 567", -0.5: "-0.500",
		1e300: "1e+300",
	} {
		if got := figure(value); got != want {
			t.Errorf("%v reads %s, want %s", value, got, want)
		}
	}
}
