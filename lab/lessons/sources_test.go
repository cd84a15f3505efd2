package lessons

import (
	"path/filepath"
	"strings"
	"testing"

	"payonce/test/pgtest"
)

func TestSessionsPrintWhatThePagesSay(t *testing.T) {
	t.Parallel()
	for _, name := range pagesWithSessions(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			url, lesson := pgtest.NewURL(t), readFile(t, lessonWithCommands)
			stage := newStage(t, url)
			runLine(t, url, makesSchema.FindString(lesson))
			want := sessionsOf(readFile(t, name))
			played := playAll(t, stage, want)
			if *update {
				rewrite(t, name, func(page string) string { return withSessions(page, played) })
				want = played
			}
			if err := comparePage(played, want); err != nil {
				t.Error(err)
			}
			runLine(t, url, removesSchema.FindString(lesson))
		})
	}
}

// A reader tries the sample that is of interest. No session needs another one.
func TestEachSessionOfTheSourcesStandsAlone(t *testing.T) {
	t.Parallel()
	for _, block := range sessionsOf(readFile(t, pageWithSamples)) {
		first, _, _ := strings.Cut(block, "\n")
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			alone := []string{block}
			if err := comparePage(playAll(t, newStage(t, newDatabase(t)), alone), alone); err != nil {
				t.Error(err)
			}
		})
	}
}
