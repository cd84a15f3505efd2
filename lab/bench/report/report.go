package report

import (
	"fmt"
	"math"
	"strings"
)

// Schema is the version of the JSON. It changes with anything that a reader could trip over.
const Schema = 1

// Report is one run.
type Report struct {
	Taken    string    `json:"taken"` // when, RFC 3339
	Machine  Machine   `json:"machine"`
	Settings []Setting `json:"settings"` // of the run: how many rounds, how long a slice is
	Sections []Section `json:"sections"`
}

// Machine is what it was measured on. What is not known is empty.
type Machine struct {
	CPU                string    `json:"cpu"`
	Cores              int       `json:"cores"`
	Memory             int64     `json:"memoryBytes"`
	System             string    `json:"system"` // GOOS/GOARCH
	Kernel             string    `json:"kernel"`
	Go                 string    `json:"go"`
	PostgreSQL         string    `json:"postgresql"`
	PostgreSQLSettings []Setting `json:"postgresqlSettings"` // that differ from the default
	Commit             string    `json:"commit"`
	Dirty              bool      `json:"dirty"` // files differed from the commit
}

// Setting is a name and its value, as text.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Section is what was measured for one question.
type Section struct {
	Name   string  `json:"name"`
	Note   string  `json:"note,omitempty"` // a sentence or two, for who reads the table
	Lines  []Line  `json:"lines"`
	Ratios []Ratio `json:"ratios"`
	Bars   []Bar   `json:"bars"`
}

// Bars are those of all sections, in order.
func (r Report) Bars() []Bar {
	var bars []Bar
	for _, section := range r.Sections {
		bars = append(bars, section.Bars...)
	}
	return bars
}

// Tally counts the bars by verdict.
func (r Report) Tally() map[Verdict]int {
	tally := map[Verdict]int{}
	for _, bar := range r.Bars() {
		tally[bar.Verdict()]++
	}
	return tally
}

// Check names the first thing in the report that its readers would trip over.
func (r Report) Check() error {
	directions := map[string]Better{}
	for _, section := range r.Sections {
		for _, line := range section.Lines {
			if err := line.check(); err != nil {
				return fmt.Errorf("section %q, line %q: %w", section.Name, line.Name, err)
			}
			if known, found := directions[line.Unit]; found && known != line.Better {
				return fmt.Errorf("section %q, line %q: the unit %s is better %s there and better %s elsewhere",
					section.Name, line.Name, line.Unit, line.Better, known)
			}
			directions[line.Unit] = line.Better
		}
		for _, ratio := range section.Ratios {
			if err := finite(ratio.Samples()); err != nil {
				return fmt.Errorf("section %q, ratio %q: %w", section.Name, ratio.Name, err)
			}
		}
		for _, bar := range section.Bars {
			if bar.Op != AtLeast && bar.Op != AtMost {
				return fmt.Errorf("section %q, bar %q: op %q is neither %s nor %s", section.Name, bar.What, bar.Op,
					AtLeast, AtMost)
			}
			if err := finite(append([]float64{bar.Value}, bar.Samples...)); err != nil {
				return fmt.Errorf("section %q, bar %q: %w", section.Name, bar.What, err)
			}
		}
	}
	return nil
}

func (l Line) check() error {
	switch {
	case l.Unit == "" || strings.ContainsFunc(l.Unit, separates) || l.Unit == ratioUnit:
		return fmt.Errorf("%q is no unit", l.Unit)
	case l.Better != Higher && l.Better != Lower:
		return fmt.Errorf("better %q is neither %s nor %s", l.Better, Higher, Lower)
	}
	return finite(l.Samples)
}

func finite(samples []float64) error {
	for _, sample := range samples {
		if math.IsNaN(sample) || math.IsInf(sample, 0) {
			return fmt.Errorf("%v is no sample", sample)
		}
	}
	return nil
}
