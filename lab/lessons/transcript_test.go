package lessons

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// block is a fenced block of a page. Text is what is between the fences.
type block struct {
	language string
	text     string
	line     int    // of the first line of the text
	at       int    // the offset of the text in the page
	notRun   string // why it is not run, if the page says so
	output   int    // the index of the block that shows what this one prints; -1: none, so it prints nothing
}

// The languages of the blocks. A psql block has what is typed and what is printed in one; sessions_test.go runs it.
const (
	pasted  = "sh"
	printed = "text"
)

var notRunMark = regexp.MustCompile(`^<!-- not run: (.+) -->$`)

// parseBlocks finds the blocks of a page. A text block is the output of the sh block before it, if at most one line of
// prose is between them.
func parseBlocks(page string) ([]block, error) {
	var blocks []block
	open := false
	at, line := 0, 0
	between := []string{} // the lines since the last block that are not empty
	for text := range strings.Lines(page) {
		line++
		at += len(text)
		text = strings.TrimRight(text, "\n")
		switch fence, isFence := strings.CutPrefix(text, "```"); {
		case isFence && open:
			if fence != "" {
				return nil, fmt.Errorf("line %d: a block begins inside of a block", line)
			}
			last := &blocks[len(blocks)-1]
			last.text = page[last.at : at-len(text)-1]
			open, between = false, nil
		case isFence:
			b := block{language: fence, line: line + 1, at: at, output: -1}
			if len(between) > 0 {
				if why := notRunMark.FindStringSubmatch(between[len(between)-1]); why != nil {
					b.notRun = why[1]
				}
			}
			if b.language == printed && len(blocks) > 0 && len(between) <= 1 && !heading(between) {
				if last := &blocks[len(blocks)-1]; last.language == pasted && last.notRun == "" {
					last.output = len(blocks)
				}
			}
			blocks, open = append(blocks, b), true
		case !open && text != "":
			between = append(between, text)
		}
	}
	if open {
		return nil, fmt.Errorf("line %d: this block has no end", blocks[len(blocks)-1].line-1)
	}
	return blocks, nil
}

func heading(lines []string) bool {
	return slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "#") })
}

// shown is what the page says that a block prints.
func shown(blocks []block, index int) string {
	if at := blocks[index].output; at >= 0 {
		return blocks[at].text
	}
	return ""
}

// withOutput is the page with another output of a block. The block is found by its place among the blocks, so that two
// blocks with the same text are no trouble.
func withOutput(page string, index int, output string) (string, error) {
	blocks, err := parseBlocks(page)
	if err != nil {
		return "", err
	}
	if index >= len(blocks) || blocks[index].output < 0 {
		return "", fmt.Errorf("the block has no ```text block after it, and prints\n%s", output)
	}
	old := blocks[blocks[index].output]
	return page[:old.at] + output + page[old.at+len(old.text):], nil
}

func TestOutputsBelongToTheBlocksBeforeThem(t *testing.T) {
	t.Parallel()
	const page = "# Title\n```sh\npay\n```\n```text\n201\n```\n" +
		"```sh\npay\n```\n\nIt answers:\n\n```text\n201\n```\n" + // the same again, and a line of prose
		"```sh\nsilent\n```\n\n## Heading\n\n```text\na picture\n```\n" +
		"```sh\nsilent\n```\nOne line.\nTwo lines.\n```text\na picture\n```\n" +
		"<!-- not run: takes an hour -->\n```sh\nlong\n```\n```text\nmuch\n```\n```go\nfunc()\n```\n"
	blocks, err := parseBlocks(page)
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		Language, Text, Output, NotRun string
		Line                           int
	}
	var got []seen
	for i, b := range blocks {
		if b.language != printed {
			got = append(got, seen{b.language, b.text, shown(blocks, i), b.notRun, b.line})
		}
	}
	want := []seen{
		{"sh", "pay\n", "201\n", "", 3}, {"sh", "pay\n", "201\n", "", 9}, {"sh", "silent\n", "", "", 18},
		{"sh", "silent\n", "", "", 27}, {"sh", "long\n", "", "takes an hour", 36}, {"go", "func()\n", "", "", 42},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the blocks differ (-want +got):\n%s", diff)
	}
	changed, err := withOutput(page, 2, "202\nreplayed\n")
	if want := strings.Replace(page, "answers:\n\n```text\n201\n", "answers:\n\n```text\n202\nreplayed\n",
		1); err != nil || changed != want {
		t.Errorf("the second output changed: %v\n%s", err, changed)
	}
	if _, err := withOutput(page, 4, "loud\n"); err == nil {
		t.Error("an output without a place for it was written")
	}
	for _, bad := range []string{"```sh\npay\n", "```sh\npay\n```text\n201\n```\n"} {
		if _, err := parseBlocks(bad); err == nil {
			t.Errorf("no error for\n%s", bad)
		}
	}
}
