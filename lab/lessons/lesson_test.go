package lessons

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// lessonLimit bounds one lesson with all of its programs, also on a busy machine: lesson 14 builds the laboratories.
const lessonLimit = 15 * time.Minute

// pace finds blocks that must be pasted quickly, and do not say so: with -pace 40s, each lesson has a slow reader.
var pace = flag.Duration("pace", 0, "wait for so long before each block, as a reader does who reads the text before it")

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
	for _, page := range lessonPages(t) {
		t.Run(nameOf(page), func(t *testing.T) {
			t.Parallel()
			run(t, page, builds)
		})
	}
}

func run(t *testing.T, page string, builds *builder) {
	t.Helper()
	text := readFile(t, page)
	blocks, err := parseBlocks(text)
	if err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lessonLimit+time.Duration(len(blocks))**pace)
	defer cancel()
	here := newPlace(t)
	var running *program
	reader := openTerminal(ctx, t, here.environment())
	for i, b := range blocks {
		if b.language != pasted || b.notRun != "" {
			continue
		}
		read(ctx, *pace)
		if startsProgram.MatchString(b.text) {
			if running != nil {
				running.stop(t)
			}
			path, settings := builds.demo(t, b.text)
			running = here.start(ctx, t, path, settings)
			continue
		}
		output, failed, err := reader.paste(here.here(b.text))
		output = here.onPage(output)
		where := fmt.Sprintf("%s:%d", page, b.line)
		if err != nil {
			t.Fatalf("%s: %v\n%s\nprints\n%s\nthe program says\n%s", where, err, b.text, output, said(running))
		}
		if want := failsOnPurpose(b.text); !slices.Equal(slices.Compact(failed), want) {
			t.Errorf("%s: these lines of the block have failed: %d; marked with %q are %d\n%s\nprints\n%s", where, failed,
				failing, want, b.text, output)
		}
		judge(t, page, i, b, output, shown(blocks, i))
		if *pace > 0 {
			continue // A slow reader's picture may have its lines in another order.
		}
		for _, name := range picturesAfter(text, blocks, i) {
			comparePicture(t, reader, page, name)
		}
	}
}

// read waits as long as a reader takes for the text before a block.
func read(ctx context.Context, takes time.Duration) {
	select {
	case <-time.After(takes):
	case <-ctx.Done():
	}
}

// judge compares what a block prints with what the page shows, or writes it into the page.
func judge(t *testing.T, page string, index int, b block, got, want string) {
	t.Helper()
	if normal(got) == normal(want) {
		return // also with -update: a page does not change for another id or time
	}
	if !*update {
		t.Errorf("%s:%d:\n%s\nprints\n%s\nthe page shows\n%s\nif the new output is right: cd lab && go test ./lessons -run 'Shown/%s' -update",
			page, b.line, b.text, got, want, nameOf(page))
		return
	}
	rewrite(t, page, func(now string) string {
		changed, err := withOutput(now, index, strings.TrimRight(got, "\n")+"\n")
		if err != nil {
			t.Errorf("%s:%d: %v", page, b.line, err)
			return now
		}
		return changed
	})
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
