package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
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

// retriesIntoNothing is a command of curl that repeats a request and throws its answer away. curl cannot cut /dev/null
// short before it repeats: after an error with a body, it gives up, and prints no status.
var retriesIntoNothing = regexp.MustCompile(`curl\b.*--retry.*(-o|--output)[ =]?/dev/null|` +
	`curl\b.*(-o|--output)[ =]?/dev/null.*--retry`)

// retryBreaches finds such commands on the pages. What public software was seen to do is in findings/, and not taught.
func retryBreaches(root fs.FS, names []string) ([]breach, error) {
	var breaches []breach
	for _, name := range names {
		ext := path.Ext(name)
		if ext != ".md" && ext != ".yaml" && ext != ".sh" && ext != ".json" || strings.HasPrefix(name, "findings/") {
			continue
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, fmt.Errorf("look for commands: %w", err)
		}
		lines := strings.Split(string(content), "\n")
		for i := range lines {
			command := lines[i]
			for next := i + 1; strings.HasSuffix(command, `\`) && next < len(lines); next++ {
				command = strings.TrimSuffix(command, `\`) + lines[next]
			}
			if retriesIntoNothing.MatchString(command) {
				breaches = append(breaches, breach{fmt.Sprintf("%s:%d", name, i+1), "curl --retry with -o /dev/null"})
			}
		}
	}
	return breaches, nil
}
