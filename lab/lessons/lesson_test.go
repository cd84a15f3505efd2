package lessons

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// lessonLimit bounds one lesson with all of its programs, also on a busy machine: lesson 14 builds the laboratories.
const lessonLimit = 15 * time.Minute

// Each lesson is pasted block by block, into one terminal, and answers what the page shows.
func TestLessonsAnswerAsShown(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("long: the lessons wait for leases, webhooks and lookups")
	}
	for _, tool := range []string{"bash", "curl", "sed", "grep", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the lessons need %s", tool)
		}
	}
	builds := &builder{dir: t.TempDir(), all: map[string]func() error{}}
	pages := lessonPages(t)
	slices.SortStableFunc(pages, func(a, b string) int { return cmp.Compare(orderOf(a), orderOf(b)) })
	queue := make(chan string, len(pages))
	for _, page := range pages {
		queue <- page
	}
	close(queue)
	// Parallel subtests would begin in an order of package testing's own.
	var readers sync.WaitGroup
	for range lessonsAtOnce {
		readers.Go(func() {
			for page := range queue {
				t.Run(nameOf(page), func(t *testing.T) { playTwice(t, page, builds) })
			}
		})
	}
	readers.Wait()
}

// lessonsAtOnce bounds how many demos run at the same time. Each is a PostgreSQL and three processes that mostly wait.
const lessonsAtOnce = 6

// longest are the lessons that wait longest. They come first, so that none of them runs alone at the end.
var longest = []string{"11", "14", "03", "06", "05", "04", "12"}

func orderOf(page string) int {
	place := slices.IndexFunc(longest, func(number string) bool { return strings.HasPrefix(nameOf(page), number) })
	if place < 0 {
		return len(longest)
	}
	return place
}

// playTwice plays a lesson once more if it answers otherwise than its page. A lesson races a reader's hands against
// leases and webhooks, so a machine that is busy with other tests can be too slow for it; twice in a row, it is the
// lesson.
func playTwice(t *testing.T, page string, builds *builder) {
	t.Helper()
	differences := play(t, page, builds)
	if len(differences) > 0 {
		t.Logf("played once more, since it was otherwise than shown: %s", strings.Join(differences, "\n"))
		differences = play(t, page, builds)
	}
	for _, difference := range differences {
		t.Error(difference)
	}
}

// play returns where a lesson answers otherwise than its page.
func play(t *testing.T, page string, builds *builder) (differences []string) {
	t.Helper()
	text := readFile(t, page)
	blocks, err := parseBlocks(text)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	if _, err := exec.LookPath("psql"); err != nil && strings.Contains(text, exports) {
		t.Skip("this lesson needs psql")
	}
	ctx, cancel := context.WithTimeout(t.Context(), lessonLimit)
	defer cancel()
	here := newPlace(t)
	var running *program
	reader := openTerminal(ctx, t, here.environment())
	for i, b := range blocks {
		if b.language != pasted || b.notRun != "" {
			continue
		}
		if startsProgram.MatchString(b.text) {
			if running != nil {
				running.stop(t)
			}
			path, settings := builds.demo(t, b.text)
			running = here.start(ctx, t, path, settings)
			if strings.Contains(text, exports) {
				if _, _, err := reader.paste(running.exportLine()); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		output, failed, err := reader.paste(here.here(b.text))
		output = here.onPage(output)
		where := fmt.Sprintf("%s:%d", page, b.line)
		if err != nil {
			t.Fatalf("%s: %v\n%s\nprints\n%s\nthe program says\n%s", where, err, b.text, output, said(running))
		}
		if want := failsOnPurpose(b.text); !slices.Equal(slices.Compact(failed), want) {
			differences = append(differences, fmt.Sprintf(
				"%s: these lines of the block have failed: %d; marked with %q are %d\n%s\nprints\n%s", where, failed,
				failing, want, b.text, output))
		}
		if difference := judge(t, page, i, b, output, shown(blocks, i)); difference != "" {
			differences = append(differences, difference)
		}
		for _, name := range picturesAfter(text, blocks, i) {
			comparePicture(t, reader, page, name)
		}
	}
	if running != nil {
		running.stop(t)
	}
	return differences
}

// judge compares what a block prints with what the page shows, or writes it into the page.
func judge(t *testing.T, page string, index int, b block, got, want string) (difference string) {
	t.Helper()
	if normal(got) == normal(want) {
		return "" // also with -update: a page does not change for another id or time
	}
	if !*update {
		return fmt.Sprintf("%s:%d:\n%s\nprints\n%s\nthe page shows\n%s\nif the new output is right: "+
			"cd lab && go test ./lessons -run 'Shown/%s' -update", page, b.line, b.text, got, want, nameOf(page))
	}
	rewrite(t, page, func(now string) string {
		changed, err := withOutput(now, index, strings.TrimRight(got, "\n")+"\n")
		if err != nil {
			t.Errorf("%s:%d: %v", page, b.line, err)
			return now
		}
		return changed
	})
	return ""
}

// failing marks a line of a block that is to fail: a page must not show a command that fails without a word about it.
const failing = "# fails"

func failsOnPurpose(text string) (lines []int) {
	for i, line := range strings.Split(text, "\n") {
		if strings.Contains(line, failing) {
			lines = append(lines, i+1)
		}
	}
	return lines
}

func said(p *program) string {
	if p == nil {
		return "(no program runs)"
	}
	return p.output()
}
