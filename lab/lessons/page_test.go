package lessons

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parts are what each lesson has, in this order.
var parts = []string{"**Costs** ", "**Needs** ", "**You will see** ", "## Predict first", "## Do it", "## Read",
	"## Break it", "## Questions", "## Next"}

const (
	maxTextLines = 130 // outside of blocks and predictions: what is read in ten minutes, with time to try
	questions    = 3
	leastChoices = 2
	mostChoices  = 4
)

var (
	title    = regexp.MustCompile(`\A# Lesson ([0-9]+): \S`)
	choice   = regexp.MustCompile(`<details><summary>[^<]+</summary>(Right|No)[,.] [^<]+</details>\n`)
	folded   = regexp.MustCompile(`(?m)^<details><summary>([0-9]+)\. [^<]+\?</summary>\n\n(?s:.+?)\n\n</details>$`)
	plantBug = regexp.MustCompile(`\bBUG=([a-z0-9-]+)`)
	nextPage = regexp.MustCompile(`\]\(([0-9]{2}-[a-z0-9-]+\.md)\)`)
)

func TestLessonsHaveEachPart(t *testing.T) {
	t.Parallel()
	pages := lessonPages(t)
	for i, page := range pages {
		next := ""
		if i+1 < len(pages) {
			next = path.Base(pages[i+1])
		}
		for _, wrong := range partsWrong(page, readFile(t, page), next) {
			t.Errorf("%s: %s", page, wrong)
		}
	}
}

// partsWrong says what a lesson lacks. Next is the page that follows it, or nothing.
func partsWrong(name, page, next string) (wrong []string) {
	number := title.FindStringSubmatch(page)
	if number == nil || fmt.Sprintf("%02s", number[1]) != path.Base(name)[:2] {
		wrong = append(wrong, "it begins with # Lesson N: title, and N is the number of the file")
	}
	text := outsideOfBlocks(page)
	at := 0
	for _, part := range parts {
		found := strings.Index("\n"+text[at:], "\n"+part)
		if found < 0 {
			wrong = append(wrong, fmt.Sprintf("it has no %q, or not in the order of the other lessons", part))
			continue
		}
		at += found
	}
	// A prediction is answered by a click, also without script. One choice is right, and each says why to go on.
	choices := choice.FindAllStringSubmatch(text, -1)
	right := slices.DeleteFunc(slices.Clone(choices), func(c []string) bool { return c[1] != "Right" })
	predict, _, _ := strings.Cut(text, "\n## Do it")
	if len(choices) < leastChoices || len(choices) > mostChoices || len(right) != 1 ||
		strings.Count(predict, "<details>") != len(choices) {
		wrong = append(wrong, "under Predict first, it has not two to four choices, one of them right: "+
			"<details><summary>choice</summary>Right. why to go on</details>")
	}
	text = strings.Replace(choice.ReplaceAllString(text, ""), "\n\n\n", "\n\n", 1)
	if n := strings.Count(text, "\n"); n > maxTextLines {
		wrong = append(wrong, fmt.Sprintf("it has %d lines of text, of %d at most", n, maxTextLines))
	}
	var asked []string
	for _, question := range folded.FindAllStringSubmatch(text, -1) {
		asked = append(asked, question[1])
	}
	if !slices.Equal(asked, []string{"1", "2", "3"}) || strings.Count(text, "<details>") != questions {
		wrong = append(wrong, "it has not the questions 1 to 3, each with a folded answer: "+
			"<details><summary>1. question?</summary>, an empty line, the answer, an empty line, </details>")
	}
	_, read, _ := strings.Cut(text, "\n## Read\n")
	read, _, _ = strings.Cut(read, "\n## ")
	if !strings.Contains(read, "#L") {
		wrong = append(wrong, "nothing is linked for reading, as (../../file.go#L10-L30)")
	}
	_, end, _ := strings.Cut(text, "\n## Next\n")
	if to := nextPage.FindStringSubmatch(end); next != "" && (to == nil || to[1] != next) {
		wrong = append(wrong, "under Next, it does not lead to "+next)
	}
	return wrong
}

// outsideOfBlocks is a page without its fenced blocks.
func outsideOfBlocks(page string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$\n?").ReplaceAllString(page, "")
}

// Each planted bug of a lesson is one of lab/mutations, also where it is only spoken about.
func TestLessonsPlantBugsThatExist(t *testing.T) {
	t.Parallel()
	for _, page := range coursePages(t) {
		for _, bug := range plantBug.FindAllStringSubmatch(readFile(t, page), -1) {
			if _, err := os.Stat(filepath.Join(root, "lab/mutations/bugs", bug[1]+".txt")); err != nil {
				t.Errorf("%s plants %s: %v", page, bug[1], err)
			}
		}
	}
}

// What is pasted is bash, also what is not run here. An interactive bash reads an exclamation mark as a part of its
// history, so no block has one that bash could take.
func TestBlocksCanBePasted(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("needs bash")
	}
	history := regexp.MustCompile(`![^\s=(]`)
	for _, page := range coursePages(t) {
		blocks, err := parseBlocks(readFile(t, page))
		if err != nil {
			t.Errorf("%s: %v", page, err)
		}
		for _, b := range blocks {
			where := page + ":" + strconv.Itoa(b.line)
			if b.language != pasted {
				continue
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-n")
			cmd.Stdin = strings.NewReader(b.text)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", where, err, out)
			}
			if history.MatchString(b.text) {
				t.Errorf("%s: an interactive bash replaces what follows the exclamation mark", where)
			}
			if strings.Contains(b.text, "sleep ") {
				t.Errorf("%s: wait for a state (becomes, held, told, deadletter), not for a time", where)
			}
		}
	}
}

func TestLessonThatLacksAPartIsFound(t *testing.T) {
	t.Parallel()
	const good = "# Lesson 7: title\n**Costs** 10 minutes.\n**Needs** bash.\n**You will see** it.\n## Predict first\n" +
		"Q?\n<details><summary>a</summary>Right. Go\non.</details>\n<details><summary>b</summary>No. Go on.</details>\n" +
		"## Do it\n```sh\n## Read\n```\n## Read\n[a](../a.go#L1-L2)\n## Break it\nx\n## Questions\n" +
		"<details><summary>1. a?</summary>\n\nb\n\n</details>\n<details><summary>2. a?</summary>\n\nb\n\n</details>\n" +
		"<details><summary>3. a?</summary>\n\nb\n\n</details>\n## Next\n[8](08-x.md)\n"
	const name, next = "course/lessons/07-x.md", "08-x.md"
	if wrong := partsWrong(name, good, next); len(wrong) > 0 {
		t.Errorf("a good lesson: %q", wrong)
	}
	for what, bad := range map[string]string{
		"another number":     strings.Replace(good, "Lesson 7", "Lesson 8", 1),
		"no costs":           strings.Replace(good, "**Costs**", "Costs", 1),
		"another order":      strings.Replace(good, "## Break it", "## Do it", 1),
		"no reading":         strings.Replace(good, "#L1-L2", "", 1),
		"two questions":      strings.Replace(good, "<details><summary>3. a?</summary>\n\nb\n\n</details>\n", "", 1),
		"an answer unfolded": strings.Replace(good, "2. a?</summary>\n\nb\n\n<", "2. a?</summary>\nb<", 1),
		"no choices":         choice.ReplaceAllString(good, ""),
		"no right choice":    strings.Replace(good, "Right. Go", "No. Go", 1),
		"two right choices":  strings.Replace(good, "No. Go", "Right. Go", 1),
		"a choice of words":  strings.Replace(good, "No. Go", "Perhaps. Go", 1),
		"another next":       strings.Replace(good, "08-x.md", "09-x.md", 1),
		"too long":           strings.Replace(good, "Q?\n", strings.Repeat("Q?\n", maxTextLines), 1),
	} {
		if wrong := partsWrong(name, bad, next); len(wrong) == 0 {
			t.Errorf("%s: nothing is found", what)
		}
	}
}
