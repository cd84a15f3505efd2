package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// minProseWords fill about three narrow lines, the least in which a package
// can say what it owns and what it refuses to know. Words, because lines are
// as long as their writer likes.
const minProseWords = 25

// proseBreaches asks each directory for one file with a package comment worth
// reading. A package of tests alone carries it in a test file.
func proseBreaches(sources []source) []breach {
	longest := map[string]int{}
	for _, file := range sources {
		if !file.generated {
			longest[file.dir] = max(longest[file.dir], proseWords(file))
		}
	}
	var breaches []breach
	for dir, words := range longest {
		if words < minProseWords {
			breaches = append(breaches, breach{dir,
				fmt.Sprintf("its package comment has %d words, of %d at least: say what it owns, what it refuses to know, what always holds",
					words, minProseWords)})
		}
	}
	slices.SortFunc(breaches, func(a, b breach) int { return strings.Compare(a.where, b.where) })
	return breaches
}

// proseWords leaves out directives and indented blocks.
func proseWords(file source) int {
	words := 0
	for line := range strings.Lines(file.syntax.Doc.Text()) {
		if !strings.HasPrefix(line, "\t") {
			words += len(strings.Fields(line))
		}
	}
	return words
}
