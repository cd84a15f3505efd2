package pgtest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"payonce/demo/embeddedpg"
	"payonce/internal/postgres"
	"payonce/test/cituscluster"
)

// Citus is the environment variable that has the shared cluster be one of Citus, with a coordinator, two workers, and
// distributed databases. Tests that start a server of their own are not concerned.
const Citus = "PGTEST_CITUS"

// OnCitus tells whether the shared cluster is one of Citus.
func OnCitus() bool { return os.Getenv(Citus) != "" }

// NeedsOneServer skips a test that cannot be played where the rows of tenants lie on several servers, and says why.
func NeedsOneServer(t testing.TB, why string) {
	t.Helper()
	if OnCitus() {
		t.Skip("it needs one server: " + why)
	}
}

// NeedsSeveralServers skips a test that is about such rows.
func NeedsSeveralServers(t testing.TB) {
	t.Helper()
	if !OnCitus() {
		t.Skip("for make citus: " + Citus + " is not set")
	}
}

// ByServers is the one value where the shared cluster is one server, and the other one where it is several.
func ByServers[T any](one, several T) T {
	if OnCitus() {
		return several
	}
	return one
}

type severalServers struct{ cluster *cituscluster.Cluster }

// startSeveral starts a cluster that has the template.
func startSeveral(ctx context.Context, dir string) (_ servers, how string, err error) {
	cluster, err := cituscluster.Start(ctx, inDoubt(options(dir, false)))
	if err != nil {
		return nil, "", err
	}
	s := severalServers{cluster}
	if err := createSpread(ctx, cluster, template); err != nil {
		return s, "", err
	}
	return s, " STRATEGY file_copy", distribute(ctx, s.first().URLAs(string(postgres.Migrator), template),
		slog.New(slog.DiscardHandler))
}

func (s severalServers) first() *embeddedpg.Server { return s.cluster.Coordinator() }

func (s severalServers) everywhere(ctx context.Context, sql string) error {
	return s.cluster.Everywhere(ctx, sql)
}

func (s severalServers) freeze(ctx context.Context, database string) error {
	return s.cluster.Freeze(ctx, database)
}

func (s severalServers) close(ctx context.Context) error {
	return errors.Join(s.cluster.Stop(ctx), s.cluster.Remove())
}

// createSpread creates an empty database with the roles on all nodes.
func createSpread(ctx context.Context, c *cituscluster.Cluster, name string) error {
	if err := c.CreateDatabase(ctx, name); err != nil {
		return err
	}
	return postgres.CreateRoles(ctx, c.Coordinator().URL(name), nil, slog.New(slog.DiscardHandler))
}

// OwnCitus is a cluster of Citus for one test, which may crash its nodes, and the connection string of a migrated
// database on it, which is not distributed yet. Nobody there decides what is in doubt but the test.
func OwnCitus(t testing.TB) (*cituscluster.Cluster, string) {
	t.Helper()
	NeedsSeveralServers(t)
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := cituscluster.Start(ctx, inDoubt(options(DataDir(t), false)))
	if err != nil {
		t.Fatalf("start Citus for a test: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := stopContext()
		defer cancel()
		if err := errors.Join(c.Stop(ctx), c.Remove()); err != nil {
			t.Error(err)
		}
	})
	if err := createSpread(ctx, c, ownDatabase); err != nil {
		t.Fatal(err)
	}
	if err := postgres.Migrate(ctx, c.Coordinator().URLAs(string(postgres.Migrator), ownDatabase),
		slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if err := c.Everywhere(ctx, postgres.DatabaseRights(ownDatabase)); err != nil {
		t.Fatal(err)
	}
	return c, c.Coordinator().URL(ownDatabase)
}

// Distribute spreads the database of OwnCitus over the workers.
func Distribute(t testing.TB, c *cituscluster.Cluster) error {
	t.Helper()
	return distribute(t.Context(), c.Coordinator().URLAs(string(postgres.Migrator), ownDatabase),
		slog.New(slog.DiscardHandler))
}

func distribute(ctx context.Context, url string, log *slog.Logger) error {
	m, err := postgres.NewMigration(url, log)
	if err != nil {
		return err
	}
	many, ok := any(m).(interface {
		Distribute(ctx context.Context) error
	})
	if !ok {
		return errors.New("this copy of Payonce distributes nothing")
	}
	return many.Distribute(ctx)
}

// inDoubt has a test decide itself what becomes of transactions in doubt. The libraries to load are for Citus to say.
func inDoubt(o embeddedpg.Options) embeddedpg.Options {
	o.Settings["citus.recover_2pc_interval"] = "-1"
	delete(o.Settings, "shared_preload_libraries")
	return o
}
