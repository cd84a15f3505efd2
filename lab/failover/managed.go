package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
	"payonce/lab/failover/patroni"
	"payonce/lab/payers"
	"payonce/lab/world"
)

const (
	// storeAway is how long etcd is away: longer than the ttl.
	storeAway = 45 * time.Second
	// failsafePause is how long payments may pause while etcd is away, because the nodes reach each other
	// (failsafe_mode). Without it, the primary gives up.
	failsafePause = 10 * time.Second
	// managedTries is how often a client sends a key: for minutes, longer than any failover.
	managedTries = 3000
)

// event is what happens to the node that is the primary.
type event struct {
	name, claim string
	leaderLast  bool          // in the programs' connection string
	promotes    bool          // whether a node must be promoted; after the event postgres, this may be the same one
	pause       time.Duration // longest time without a 201 that our settings of Patroni allow, or 0: it is told alone
	happens     func(ctx context.Context, c *patroni.Cluster, leader int) error
}

func events() []event {
	// kills wraps what cannot fail.
	kills := func(do func(c *patroni.Cluster, leader int)) func(context.Context, *patroni.Cluster, int) error {
		return func(_ context.Context, c *patroni.Cluster, leader int) error {
			do(c, leader)
			return nil
		}
	}
	return []event{
		{
			name: "switchover", claim: "an operator has Patroni make another node the primary", promotes: true,
			happens: func(ctx context.Context, c *patroni.Cluster, leader int) error {
				return c.Switchover(ctx, leader)
			},
		},
		{
			name: "postgres", claim: "kill -9 of PostgreSQL", promotes: true,
			happens: kills((*patroni.Cluster).KillPostgres),
		},
		{
			name: "node", claim: "kill -9 of Patroni and PostgreSQL", promotes: true,
			happens: kills((*patroni.Cluster).KillNode),
		},
		{
			name: "manager-leader-first", claim: "kill -9 of Patroni alone; the old primary is named first",
			promotes: true, happens: kills((*patroni.Cluster).KillManager),
		},
		{
			name: "manager-standby-first", claim: "kill -9 of Patroni alone; the old primary is named last",
			promotes: true, leaderLast: true, happens: kills((*patroni.Cluster).KillManager),
		},
		{
			name: "paused", claim: "SIGSTOP of Patroni and PostgreSQL", promotes: true,
			happens: kills((*patroni.Cluster).Pause),
		},
		{
			name: "store", claim: "etcd does not answer for " + storeAway.String(), pause: failsafePause,
			happens: func(ctx context.Context, c *patroni.Cluster, _ int) error {
				c.PauseStore(ctx, storeAway)
				return ctx.Err()
			},
		},
	}
}

func patroniCases() []testCase {
	var cases []testCase
	for _, e := range events() {
		cases = append(cases, testCase{e.name, e.claim, func(ctx context.Context, l *lab, o *outcome) error {
			return l.play(ctx, e, o)
		}})
	}
	return cases
}

// managed is the cluster of all cases. Its zero value has none.
type managed struct {
	cluster *patroni.Cluster
	site    *world.Site
}

func (m managed) close() {
	if m.cluster != nil {
		m.cluster.Close()
	}
}

// all are the nodes of the cluster.
func (m managed) all() (nodes []int) {
	for i := range m.cluster.Nodes() {
		nodes = append(nodes, i)
	}
	return nodes
}

// manage starts the cluster before the first case.
func (l *lab) manage(ctx context.Context) error {
	if l.managed.cluster == nil {
		if err := l.startCluster(ctx); err != nil {
			return err
		}
	}
	if l.managed.site != nil {
		return nil
	}
	site, err := world.Open(ctx, world.Options{Programs: l.programs, Dir: l.managedLogs(), Say: l.say,
		URLAs: func(role, database string) string { return l.managed.cluster.URL(role, database, l.managed.all()...) }})
	if err != nil {
		return err // The next case tries again, with the cluster that is there.
	}
	l.managed.site = site
	return l.askVersion(ctx, site.URL("postgres"))
}

func (l *lab) startCluster(ctx context.Context) (err error) {
	more := map[string]any{}
	if l.settings.DCS != "" {
		if err := json.Unmarshal([]byte(l.settings.DCS), &more); err != nil {
			return fmt.Errorf("read DCS: %w", err)
		}
	}
	dir, logs := filepath.Join(l.dir, "patroni"), l.managedLogs()
	for _, folder := range []string{dir, logs} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	l.say("three nodes of Patroni are starting")
	l.managed.cluster, err = patroni.Start(ctx, dir, logs, more)
	return err
}

func (l *lab) managedLogs() string { return filepath.Join(l.dir, kept, "patroni") }

// play has one event happen under load.
func (l *lab) play(ctx context.Context, e event, o *outcome) (err error) {
	if err := l.manage(ctx); err != nil {
		return err
	}
	c := l.managed.cluster
	if err := c.Heal(ctx); err != nil {
		return err
	}
	leader, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	s, err := l.openManaged(ctx, e, leader)
	if err != nil {
		return err
	}
	defer func() {
		// Also when the case has failed: the world's database is dropped on the primary.
		err = errors.Join(err, c.Heal(context.WithoutCancel(ctx)), s.close())
	}()
	if err := s.endure(ctx, e, leader, o); err != nil {
		return err
	}
	if err := c.Heal(ctx); err != nil {
		return err
	}
	if leader, err = c.Leader(ctx); err != nil {
		return err
	}
	s.DB.Close()
	s.URL = c.URL("payonce", s.Name, leader)
	if s.DB, err = pgxpool.New(ctx, s.URL); err != nil {
		return err
	}
	if err := s.rest(ctx, o); err != nil {
		return err
	}
	if err := s.tellMissing(ctx, o); err != nil {
		return err
	}
	return s.judge(ctx, o)
}

// openManaged starts the programs. Their connection string names the primary first, or last.
func (l *lab) openManaged(ctx context.Context, e event, leader int) (_ *stage, err error) {
	c, order := l.managed.cluster, []int{leader}
	for i := range c.Nodes() {
		if i != leader {
			order = append(order, i)
		}
	}
	if e.leaderLast {
		slices.Reverse(order)
	}
	s := &stage{lab: l}
	s.World, err = l.managed.site.New(ctx, world.Plan{NoWebhooks: l.settings.Quick,
		DatabaseURL: func(role postgres.Role) (string, error) { return c.URL(string(role), s.Name, order...), nil }})
	if err != nil {
		return nil, err
	}
	if err := s.startPrograms(ctx, payers.Options{Tries: managedTries}); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}
