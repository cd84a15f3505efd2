package pgtest

import (
	"sync"
	"testing"
)

// seeded is a migrated database that seed has written to, for tests to clone.
type seeded struct {
	once     sync.Once
	database string // empty if seed has failed
}

// Seeded is NewURL, with what seed writes already in the database. For each kind, seed runs once in a test binary: the
// databases of the other tests are clones. It must close its connections. On a cluster of Citus it runs for each test.
func Seeded(t testing.TB, kind string, seed func(url string)) string {
	t.Helper()
	server := Server(t)
	if shared.citus != nil {
		url := NewURL(t)
		seed(url)
		return url
	}
	s := shared.seed(kind)
	s.once.Do(func() {
		name, err := shared.createDatabase(template)
		if err != nil {
			t.Fatalf("create database: %v", err)
		}
		seed(server.URL(name)) // which may end this test
		if err := shared.freeze(name); err != nil {
			t.Fatalf("freeze database: %v", err)
		}
		s.database = name
	})
	if s.database == "" {
		t.Fatalf("no database has been seeded with %s: see the test that came first", kind)
	}
	return cloneOf(t, s.database)
}

func (c *cluster) seed(kind string) *seeded {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seeds == nil {
		c.seeds = map[string]*seeded{}
	}
	if c.seeds[kind] == nil {
		c.seeds[kind] = &seeded{}
	}
	return c.seeds[kind]
}
