package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// ratioUnit is the unit of ratios. It has no direction: which way a ratio improves is for its bar to say.
const ratioUnit = "ratio"

// Benchmarks writes the report in the Go benchmark format (golang.org/design/14313; units with a direction: package
// golang.org/x/perf/benchfmt): one line per sample, named Benchmark<Section>/<line>. benchstat makes its own medians.
func (r Report) Benchmarks(w io.Writer) error {
	if err := r.Check(); err != nil {
		return err
	}
	var text strings.Builder
	for _, key := range []Setting{{"goos", r.Machine.os()}, {"goarch", r.Machine.arch()}, {"cpu", r.Machine.CPU}} {
		if key.Value != "" {
			fmt.Fprintf(&text, "%s: %s\n", key.Name, key.Value)
		}
	}
	// Notes, not keys: benchstat compares nothing across values of a key, and commits and versions are there to be
	// compared.
	for _, note := range []Setting{{"taken", r.Taken}, {"commit", r.Machine.commit()}, {"Go", r.Machine.Go},
		{"PostgreSQL", r.Machine.PostgreSQL}} {
		if note.Value != "" {
			fmt.Fprintf(&text, "# %s %s\n", note.Name, note.Value)
		}
	}
	told := map[string]bool{}
	for _, section := range r.Sections {
		for _, line := range section.Lines {
			if !told[line.Unit] {
				fmt.Fprintf(&text, "Unit %s better=%s\n", line.Unit, line.Better)
				told[line.Unit] = true
			}
		}
	}
	for _, section := range r.Sections {
		for _, line := range section.Lines {
			benchmark(&text, section.Name, line.Name, line.Unit, line.Samples)
		}
		for _, ratio := range section.Ratios {
			benchmark(&text, section.Name, ratio.Name, ratioUnit, ratio.Samples())
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func benchmark(text *strings.Builder, section, name, unit string, samples []float64) {
	for _, sample := range samples {
		fmt.Fprintf(text, "Benchmark%s/%s 1 %s %s\n", capital(word(section)), word(name),
			strconv.FormatFloat(sample, 'f', -1, 64), unit)
	}
}

// word joins a name to what may stand in a benchmark's: no blanks, and no slash, which begins a part of its own.
func word(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool { return separates(r) || r == '/' }), "_")
}

// capital makes the first letter one: Benchmarkx is no benchmark.
func capital(name string) string {
	for i, first := range name {
		if i == 0 {
			return string(unicode.ToUpper(first)) + name[len(string(first)):]
		}
	}
	return name
}

func separates(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

func (m Machine) os() string {
	os, _, _ := strings.Cut(m.System, "/")
	return os
}

func (m Machine) arch() string {
	_, arch, _ := strings.Cut(m.System, "/")
	return arch
}

// commit tells a clean checkout from one in which files differ.
func (m Machine) commit() string {
	if m.Commit != "" && m.Dirty {
		return m.Commit + "+changes"
	}
	return m.Commit
}
