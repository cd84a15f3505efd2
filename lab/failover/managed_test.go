package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"payonce/lab/failover/patroni"
	"payonce/lab/history"
	"payonce/lab/world"
)

func TestManagerAndItsCasesAreKnownByName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ manager, only, refused string }{
		{"patroni", "paused, store", ""},
		{"patroni", "sync", "sync"},
		{"", "paused", "paused"},
		{"repmgr", "", "repmgr"},
	} {
		environment := map[string]string{"HA": c.manager, "ONLY": c.only}
		_, err := loadSettings(func(name string) string { return environment[name] })
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A log tells of every primary that its program has found.
func TestPrimaryIsFoundWhenTheLogTellsOfThisPromotion(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "api-1.log")
	text := `{"time":"2026-11-30T12:00:00Z","msg":"primary found"}
{"time":"2026-11-30T12:01:00Z","msg":"request"}
not JSON
{"time":"2026-11-30T12:01:01Z","msg":"primary found"}
`
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	promoted := time.Date(2026, 11, 30, 12, 1, 0, 0, time.UTC)
	if found, err := primaryFound(log, promoted); err != nil || found.Sub(promoted) != time.Second {
		t.Errorf("found %s, %v", found, err)
	}
	if found, err := primaryFound(log, promoted.Add(time.Minute)); err == nil {
		t.Errorf("a promotion that nobody has noticed was found at %s", found)
	}
}

// What nobody has measured counts as broken, and not as fast.
func TestEachLimitOfAnEventIsJudged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tell   func(*outcome)
		broken bool
	}{
		"all is well":         {func(o *outcome) { o.tellFound(findLimit, time.Minute, time.Minute) }, false},
		"found late":          {func(o *outcome) { o.tellFound(findLimit+1, time.Minute, time.Minute) }, true},
		"paid late":           {func(o *outcome) { o.tellFound(0, time.Second, time.Second+findLimit+1) }, true},
		"nothing paid":        {func(o *outcome) { o.tellFound(0, time.Second, -1) }, true},
		"a short pause":       {func(o *outcome) { o.tellPause(time.Second, time.Second) }, false},
		"a long pause":        {func(o *outcome) { o.tellPause(time.Second+1, time.Second) }, true},
		"a pause of no limit": {func(o *outcome) { o.tellPause(time.Minute, 0) }, false},
		"read or unavailable": {func(o *outcome) { o.tellReads(map[int]int{200: 1, 503: 9}) }, false},
		"not found":           {func(o *outcome) { o.tellReads(map[int]int{200: 99, 404: 1}) }, true},
		"an error":            {func(o *outcome) { o.tellReads(map[int]int{200: 99, 500: 1}) }, true},
		"nothing read":        {func(o *outcome) { o.tellReads(map[int]int{503: 9}) }, true},
	} {
		o := new(outcome)
		if c.tell(o); (len(o.violations) > 0) != c.broken {
			t.Errorf("%s: %v", name, o.violations)
		}
	}
	for _, e := range events() {
		if !e.promotes && e.pause == 0 {
			t.Errorf("nothing is expected of %s", e.name)
		}
	}
}

func TestLastAcknowledgementsAreReadOnceEach(t *testing.T) {
	t.Parallel()
	got := lastAcknowledged([]history.Operation{
		{Status: 201, Answer: []byte(`{"paymentId":"too early"}`)},
		{Status: 402, Answer: []byte(`{"paymentId":"declined"}`)},
		{Status: 202, Answer: []byte(`{"paymentId":"first 202, then 201"}`)},
		{Status: 201, Answer: []byte(`{"paymentId":"first 202, then 201"}`)},
		{Status: 503, Answer: []byte(`{"paymentId":"not acknowledged"}`)},
		{Status: 202},
	}, 2)
	if diff := cmp.Diff([]string{"first 202, then 201", "declined"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoAnswerIsLeftOutOfTheReport(t *testing.T) {
	t.Parallel()
	if got := counted(map[int]int{404: 1, 0: 2, 201: 3}); got != "2 × unanswered, 3 × 201, 1 × 404" {
		t.Error(got)
	}
}

// The next case uses the cluster that is there, and the end of the lab ends it.
func TestClusterIsKeptIfNoDatabaseCanBeMade(t *testing.T) {
	t.Parallel()
	none := new(patroni.Cluster)
	l := &lab{managed: managed{cluster: none}, dir: t.TempDir(), programs: world.Programs{}, say: func(string) {}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.manage(ctx); err == nil || l.managed.cluster != none || l.managed.site != nil {
		t.Errorf("%v, cluster kept: %t, site: %v", err, l.managed.cluster == none, l.managed.site)
	}
}
