package report

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var dropped = math.NaN()

func TestMedianIsTheMiddleOrHalfwayBetweenTheMiddleTwo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rounds []float64
		want   Summary
	}{
		"none":         {nil, Summary{}},
		"none is kept": {[]float64{dropped, dropped}, Summary{}},
		"one":          {[]float64{7}, Summary{1, 7, 7, 7}},
		"even":         {[]float64{4, 1, 3, 2}, Summary{4, 2.5, 1, 4}},
		"odd":          {[]float64{100, 1, 3}, Summary{3, 3, 1, 100}},
		"one dropped":  {[]float64{2, dropped, 4}, Summary{2, 3, 2, 4}},
	} {
		before := slices.Clone(c.rounds)
		if diff := cmp.Diff(c.want, Figure{Rounds: c.rounds}.Summary()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if !slices.EqualFunc(before, c.rounds, func(a, b float64) bool { return a == b || a != a && b != b }) {
			t.Errorf("%s: the rounds are in another order: %v", name, c.rounds)
		}
	}
}

func TestRatioIsTakenRoundByRoundAndNeedsBothSides(t *testing.T) {
	t.Parallel()
	// The machine slows down by half: each round says 2, the medians alone would say 2.5.
	if s := Ratio("", []float64{40, 20, 10}, []float64{20, 10, 5}, Bar{}).Summary(); s.Low != 2 || s.High != 2 {
		t.Errorf("%+v, want 2 throughout", s)
	}
	for name, denominators := range map[string][]float64{"dropped": {dropped, 2}, "nothing": {0, 2}} {
		want := Summary{1, 3, 3, 3}
		if diff := cmp.Diff(want, Ratio("", []float64{1, 6}, denominators, Bar{}).Summary()); diff != "" {
			t.Errorf("%s below the line: %s", name, diff)
		}
	}
}

func TestBarIsJudgedByTheMedianAndOnlyIfItWasRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		bar    Bar
		rounds []float64
		want   string
	}{
		"at least, reached":      {AtLeast(10), []float64{1, 10, 11}, "met"},
		"at least, a hair short": {AtLeast(10), []float64{1, 9.9999999, 11}, "MISSED"},
		"at most, reached":       {AtMost(10), []float64{1, 10, 11}, "met"},
		"at most, a hair above":  {AtMost(10), []float64{1, 10.0000001, 11}, "MISSED"},
		"nothing kept":           {AtLeast(10), []float64{dropped}, "not run"},
		"no bar":                 {Bar{}, []float64{10}, ""},
	} {
		if got := (Figure{Rounds: c.rounds, Bar: c.bar}).Verdict(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestNumbersKeepThreeDigits(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{
		0: "0", 0.00012345: "0.000123", 0.949: "0.949", 0.95: "0.950", 1.3249: "1.32", 12.34: "12.3", 99.96: "100",
		999.6: "1 000", 1234567: "1 234 567", -123: "-123", -1234567: "-1 234 567", -0.5: "-0.500", 1e300: "1e+300",
	} {
		if got := number(value); got != want {
			t.Errorf("%v reads %s, want %s", value, got, want)
		}
	}
}

func TestTableShowsFiguresWithTheirBars(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	err := Table(&text, []string{"2 cores"}, []Section{{
		Name: "replay", Note: "Replays of loaded keys.", Figures: []Figure{
			{What: "API, 8 clients", Unit: "replays/s", Rounds: []float64{8862, dropped, 9011.25}},
			{What: "replay ÷ new payment", Rounds: []float64{4.2}, Bar: AtLeast(3.5)},
			{What: "webhook ÷ event", Rounds: []float64{dropped}, Bar: AtMost(1000)},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"2 cores", "== replay", "Replays of loaded keys.", "median spread unit slices bar verdict",
		"API, 8 clients 8 937 8 862 – 9 011 replays/s 2/3", "replay ÷ new payment 4.20 4.20 – 4.20 1/1 ≥ 3.5 met",
		"webhook ÷ event — — 0/1 ≤ 1 000 not run", "bars: 1 met, 0 MISSED, 1 not run",
	}
	var got []string
	for line := range strings.Lines(text.String()) {
		if words := strings.Join(strings.Fields(line), " "); words != "" {
			got = append(got, words)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
