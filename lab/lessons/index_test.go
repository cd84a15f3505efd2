package lessons

import (
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	indexRow = regexp.MustCompile(`(?m)^\| \[([0-9]+: [^\]]+)\]\(lessons/([^)]+)\) \| [^|]+ \| ([0-9]+) \| [^|]*\|$`)
	wayRow   = regexp.MustCompile(`(?m)^\| [^|]+ \| [^|]+ \| ([0-9]+(?:, [0-9]+)+) \| ([0-9]+) \|$`)
	costs    = regexp.MustCompile(`(?m)^\*\*Costs\*\* about ([0-9]+) minutes\b`)
	headline = regexp.MustCompile(`\A# Lesson (.+)\n`)
)

const index = "course/README.md"

// The course's page has each lesson once, by its own title and time, and the ways through the course add up.
func TestIndexHasEachLesson(t *testing.T) {
	t.Parallel()
	pages := map[string]string{}
	for _, page := range lessonPages(t) {
		pages[path.Base(page)] = readFile(t, page)
	}
	for _, wrong := range indexWrong(readFile(t, index), pages) {
		t.Errorf("%s: %s", index, wrong)
	}
}

// indexWrong compares the course's page with the lessons, by their file names.
func indexWrong(text string, pages map[string]string) (wrong []string) {
	minutes, total := map[string]int{}, 0
	for _, row := range indexRow.FindAllStringSubmatch(text, -1) {
		name, page := row[2], pages[row[2]]
		title, cost := headline.FindStringSubmatch(page), costs.FindStringSubmatch(page)
		if title == nil || cost == nil || title[1] != row[1] || cost[1] != row[3] {
			wrong = append(wrong, fmt.Sprintf("%s: the lesson has another title or time: %q, %q", name, title, cost))
			continue
		}
		minutes[strings.Split(row[1], ":")[0]] = number(cost[1])
		total += number(cost[1])
	}
	for name := range pages {
		if n := strings.Count(text, name); n != 1 {
			wrong = append(wrong, fmt.Sprintf("%s is there %d times", name, n))
		}
	}
	if sum := fmt.Sprintf("%d lessons of about %d minutes", len(pages), total); !strings.Contains(text, sum) {
		wrong = append(wrong, "it does not say that it has "+sum)
	}
	for _, way := range wayRow.FindAllStringSubmatch(text, -1) {
		sum := 0
		for lesson := range strings.SplitSeq(way[1], ", ") {
			sum += minutes[lesson]
		}
		if strconv.Itoa(sum) != way[2] {
			wrong = append(wrong, fmt.Sprintf("lessons %s are %d minutes", way[1], sum))
		}
	}
	return wrong
}

func TestIndexThatIsWrongIsFound(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"00-a.md": "# Lesson 0: first\n\n**Costs** about 10 minutes.\n",
		"01-b.md": "# Lesson 1: second\n\n**Costs** about 12 minutes, one of them for waiting.\n",
	}
	const good = "It has 2 lessons of about 22 minutes together.\n\n| [0: first](lessons/00-a.md) | x | 10 | |\n" +
		"| [1: second](lessons/01-b.md) | y | 12 | 0 |\n\n| all | you | 0, 1 | 22 |\n"
	if wrong := indexWrong(good, pages); len(wrong) > 0 {
		t.Errorf("a good page: %q", wrong)
	}
	for what, bad := range map[string]string{
		"another title":   strings.Replace(good, "0: first", "0: First", 1),
		"another time":    strings.Replace(good, "| 10 |", "| 11 |", 1),
		"a lesson less":   strings.Replace(good, "| [1: second](lessons/01-b.md) | y | 12 | 0 |\n", "", 1),
		"a lesson twice":  good + "[again](lessons/00-a.md)\n",
		"no such lesson":  good + "| [2: third](lessons/02-c.md) | z | 10 | |\n",
		"another sum":     strings.Replace(good, "about 22", "about 20", 1),
		"a way too short": strings.Replace(good, "| 22 |", "| 21 |", 1),
	} {
		if wrong := indexWrong(bad, pages); len(wrong) == 0 {
			t.Errorf("%s: nothing is found", what)
		}
	}
}
