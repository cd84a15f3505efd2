package report

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// lines describe the machine at the head of the table.
func (m Machine) lines() []string {
	var facts []string
	for _, fact := range []struct {
		known bool
		text  string
	}{
		{m.CPU != "", m.CPU},
		{m.Cores > 0, fmt.Sprintf("%d cores", m.Cores)},
		{m.Memory > 0, fmt.Sprintf("%.1f GiB", float64(m.Memory)/(1<<30))},
		{m.System != "", m.System},
		{m.Kernel != "", "kernel " + m.Kernel},
		{m.Go != "", m.Go},
		{m.PostgreSQL != "", "PostgreSQL " + m.PostgreSQL},
		{m.Commit != "", "commit " + m.commit()},
	} {
		if fact.known {
			facts = append(facts, fact.text)
		}
	}
	return append(wrapped("machine: ", separated(facts)), wrapped("PostgreSQL: ", joined(m.PostgreSQLSettings))...)
}

// separated sets commas behind all but the last.
func separated(words []string) []string {
	for i := range len(words) - 1 {
		words[i] += ","
	}
	return words
}

// joined are settings as name=value.
func joined(settings []Setting) []string {
	var words []string
	for _, setting := range settings {
		words = append(words, setting.Name+"="+setting.Value)
	}
	return separated(words)
}

// wrapped breaks words into lines of at most proseWidth, if a word is not longer. Later lines stand under the first
// word.
func wrapped(head string, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	indent := strings.Repeat(" ", utf8.RuneCountInString(head))
	lines := []string{head + words[0]}
	for _, word := range words[1:] {
		last := &lines[len(lines)-1]
		if utf8.RuneCountInString(*last)+1+utf8.RuneCountInString(word) > proseWidth {
			lines = append(lines, indent+word)
			continue
		}
		*last += " " + word
	}
	return lines
}
