package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func loaded(environment map[string]string) (settings, error) {
	return loadSettings(func(name string) string { return environment[name] })
}

func TestRunHasTheSectionsOfItsDepthOrThoseThatAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environment map[string]string
		want        []string
	}{
		{map[string]string{"QUICK": "1"}, []string{"new", "replay"}},
		// against another commit only where one is named, and the long ones only where they are asked for
		{nil, []string{"new", "replay", "resolve", "sweep", "prune", "webhook", "peers"}},
		{map[string]string{"QUICK": "1", "BENCH_ONLY": "replay, size"}, []string{"replay", "size"}},
		{map[string]string{"REF": "HEAD"}, []string{"against"}},
		{map[string]string{"REF": "HEAD", "BENCH_ONLY": "replay,against"}, []string{"replay", "against"}},
		{map[string]string{"REF": "HEAD", "BENCH_ONLY": "fresh"}, []string{"fresh"}},
	} {
		s, err := loaded(c.environment)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, each := range sections() {
			if s.wants(each) {
				names = append(names, each.name)
			}
		}
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("%v: %s", c.environment, diff)
		}
	}
}

func TestQuickIsShorterButWhatWasAskedForStays(t *testing.T) {
	t.Parallel()
	s, err := loaded(map[string]string{"QUICK": "1", "BENCH_CLIENTS": "3", "BENCH_ROUNDS": "2"})
	if err != nil || s.Seconds != 1 || s.Rounds != 2 || !cmp.Equal(s.Clients, []int{3}) {
		t.Errorf("%+v, %v", s, err)
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
