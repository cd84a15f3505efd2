package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func loaded(environment map[string]string) (settings, error) {
	return loadSettings(func(name string) string { return environment[name] })
}

func TestSettingsHaveTheirDefaults(t *testing.T) {
	t.Parallel()
	s, err := loaded(nil)
	want := settings{Rows: 100_000, Clients: []int{1, 8, 32, 64}, PSPms: 50, Rounds: 5, Seconds: 2,
		JSON: "bin/bench.json"}
	if diff := cmp.Diff(want, s); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// included are the sections that a run has.
func included(t *testing.T, environment map[string]string) []string {
	t.Helper()
	s, err := loaded(environment)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, each := range sections() {
		if s.wants(each) {
			names = append(names, each.name)
		}
	}
	return names
}

func TestRunHasTheSectionsOfItsDepthOrThoseThatAreNamed(t *testing.T) {
	t.Parallel()
	brief, usual := included(t, map[string]string{"QUICK": "1"}), included(t, nil)
	all := included(t, map[string]string{"BENCH_LONG": "1"})
	// against another commit only where one is named, and on fresh tables only where they are asked for
	if len(brief) == 0 || len(brief) >= len(usual) || len(usual) >= len(all) || len(all) != len(sections())-2 {
		t.Errorf("%d, %d and %d sections of %d", len(brief), len(usual), len(all), len(sections()))
	}
	if named := included(t, map[string]string{"QUICK": "1", "BENCH_ONLY": "replay, scale"}); !cmp.Equal(named,
		[]string{"replay", "scale"}) {
		t.Errorf("%v are run, of replay and scale", named)
	}
	if named := included(t, map[string]string{"REF": "HEAD"}); !cmp.Equal(named, []string{"against"}) {
		t.Errorf("%v are run, of against", named)
	}
	if named := included(t, map[string]string{"REF": "HEAD", "BENCH_ONLY": "replay,against"}); !cmp.Equal(named,
		[]string{"replay", "against"}) {
		t.Errorf("%v are run, of replay and against", named)
	}
	if named := included(t, map[string]string{"REF": "HEAD", "BENCH_ONLY": "fresh"}); !cmp.Equal(named,
		[]string{"fresh"}) {
		t.Errorf("%v are run, of fresh", named)
	}
}

func TestQuickIsShorterButWhatWasAskedForStays(t *testing.T) {
	t.Parallel()
	s, err := loaded(map[string]string{"QUICK": "1", "BENCH_CLIENTS": "3", "BENCH_ROUNDS": "2"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Seconds != 1 || s.Rounds != 2 || !cmp.Equal(s.Clients, []int{3}) {
		t.Errorf("%+v", s)
	}
	if s, err = loaded(map[string]string{"QUICK": "1"}); err != nil || s.Rounds != 3 ||
		!cmp.Equal(s.Clients, []int{8, 64}) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestSettingOutOfBoundsIsRefusedByName(t *testing.T) {
	t.Parallel()
	for setting, values := range map[string][]string{
		"BENCH_ROWS": {"9999", "10000001", "many"}, "BENCH_CLIENTS": {"0", "8,1001", "x"},
		"TRACED": {"-0.1", "1.1", "NaN", "all"}, "BENCH_PSP_MS": {"-1", "5001"},
		"BENCH_ROUNDS": {"0"}, "BENCH_SECONDS": {"0"}, "BENCH_ONLY": {"replya", "against"},
	} {
		for _, value := range values {
			_, err := loaded(map[string]string{setting: value})
			// The parser names the field.
			if err == nil || !strings.Contains(err.Error(), setting) &&
				!strings.Contains(err.Error(), "read settings") {
				t.Errorf("%s=%s: %v, want an error that names the setting", setting, value, err)
			}
		}
	}
}
