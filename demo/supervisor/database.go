package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"payonce/demo/embeddedpg"
	"payonce/internal/app"
	"payonce/internal/postgres"
	"payonce/internal/sequence"
	"payonce/internal/tenants"
)

// stopLimit is how long PostgreSQL may take to stop in good order.
const stopLimit = 20 * time.Second

// databaseName is the database's in the private cluster.
const databaseName = "payonce"

// database is the one that the demo runs on: a private cluster, or a server that DATABASE_URL names.
type database struct {
	// url is the owner's. The processes have urls of their own; on a server that is not ours, where we make no roles,
	// they are the same.
	url, migrator, api, reconciler string

	dir    string // where the demo's files are
	about  string
	server *embeddedpg.Server // nil for a server that is not ours; while the demo runs, watch alone uses it

	crashes chan struct{} // asked for, and not yet begun
	watched
}

func startDatabase(
	ctx context.Context, dir string, getenv func(string) string, log *slog.Logger, say func(string),
) (*database, error) {
	if url := getenv("DATABASE_URL"); url != "" {
		return namedDatabase(ctx, dir, url, say)
	}
	server, err := embeddedpg.Start(ctx, embeddedpg.Options{
		DataDir: dir, Durable: true, Install: true, Getenv: getenv, Log: log, Progress: say,
	})
	switch {
	case errors.Is(err, embeddedpg.ErrInUse):
		return nil, fmt.Errorf("another demo is running: %w; stop it, or set DEMO_DATA_DIR, HTTP_ADDR, OPERATOR_ADDR and MOCKPSP_ADDR to others", err)
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // what an interrupted program of PostgreSQL's has said is no reason
	case err != nil:
		return nil, fmt.Errorf("%w (DEMO_DATA_DIR=%s)", err, dir)
	}
	as := func(role postgres.Role) string { return server.URLAs(string(role), databaseName) }
	d := &database{
		url: server.URL(databaseName), migrator: as(postgres.Migrator), api: as(postgres.API),
		reconciler: as(postgres.Reconciler),
		dir:        server.DataDir(), server: server,
		about:   "PostgreSQL " + server.Version() + ", private, in " + server.DataDir(),
		crashes: make(chan struct{}, 1),
	}
	d.started(server.PID())
	d.serves()
	err = createDatabase(ctx, server.URL("postgres"), databaseName)
	if err == nil {
		// Also in a database from before there were roles: what is in it goes over to the migrator.
		err = postgres.CreateRoles(ctx, d.url, nil, log)
	}
	if err != nil {
		d.stop(say)
		return nil, err
	}
	return d, nil
}

// withoutOwn takes the demo's own database out of the environment. The banner shows it as DATABASE_URL, for commands,
// and who has pasted that starts the next demo in the same terminal.
func withoutOwn(getenv func(string) string, dir string) func(string) string {
	named, err := pgx.ParseConfig(getenv("DATABASE_URL"))
	absolute, absErr := filepath.Abs(dir)
	if err != nil || absErr != nil || named.Database != databaseName ||
		named.Host != filepath.Join(absolute, embeddedpg.SocketFolder) {
		return getenv
	}
	return func(name string) string {
		if name == "DATABASE_URL" {
			return ""
		}
		return getenv(name)
	}
}

// namedDatabase is a server that runs already. It is refused when the database is somebody's: the demo's API keys are
// well known, and DATABASE_URL may be left over from another project.
func namedDatabase(ctx context.Context, dir, url string, say func(string)) (*database, error) {
	say("using the database of DATABASE_URL; unset it for a private one")
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connect to DATABASE_URL (unset it for a private database): %w", err)
	}
	defer conn.Close(ctx)
	var tables int
	var ours bool
	err = conn.QueryRow(ctx, `SELECT count(*), coalesce(bool_or(table_name = 'goose_db_version'), false)
		FROM information_schema.tables WHERE table_schema = 'public'`).Scan(&tables, &ours)
	if err != nil {
		return nil, fmt.Errorf("look into the database: %w", err)
	}
	var strangers int
	if ours {
		err = conn.QueryRow(ctx, "SELECT count(*) FROM tenants WHERE id NOT IN ('acme', 'globex')").Scan(&strangers)
	}
	if err != nil || tables > 0 && !ours || strangers > 0 {
		return nil, errors.New("DATABASE_URL names a database that is in use for something else, and the demo would put well-known API keys into it; " +
			"unset DATABASE_URL, or name an empty database")
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find DEMO_DATA_DIR: %w", err)
	}
	if err := os.MkdirAll(absolute, 0o700); err != nil {
		return nil, fmt.Errorf("make DEMO_DATA_DIR: %w", err)
	}
	return &database{url: url, migrator: url, api: url, reconciler: url, dir: absolute,
		about: "the server of DATABASE_URL"}, nil
}

func (d *database) migrate(ctx context.Context, log *slog.Logger) error {
	err := postgres.Migrate(ctx, d.migrator, log)
	if errors.Is(err, postgres.ErrDevelopmentVersion) && d.server != nil {
		return fmt.Errorf("the demo's data are of an older development version of Payonce: remove the folder %s and start the demo again", d.dir)
	}
	return err
}

// onDatabase does something on a connection of its own.
func onDatabase(ctx context.Context, url string, do func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer conn.Close(ctx)
	return do(conn)
}

// createDatabase makes a database on the server at url, unless there is one of this name.
func createDatabase(ctx context.Context, url, name string) error {
	return onDatabase(ctx, url, func(conn *pgx.Conn) error {
		var exists bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)",
			name).Scan(&exists); err != nil {
			return fmt.Errorf("look for the database %s: %w", name, err)
		}
		if exists {
			return nil
		}
		if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
			return fmt.Errorf("create the database %s: %w", name, err)
		}
		return nil
	})
}

func (d *database) stop(say func(string)) {
	if d.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if err := d.server.Stop(ctx); err != nil {
		say("stop PostgreSQL: " + err.Error())
		return
	}
	say("stopped; the data is in " + d.dir)
}

// accountOf is the account of a tenant of the demo at its provider.
func accountOf(tenant string, psp tenants.PSP) string {
	if psp == tenants.Stripe {
		return "acct_" + tenant
	}
	return tenant
}

// seed makes the two tenants and the keys that everybody knows, unless they exist.
func seed(ctx context.Context, url string, psp tenants.PSP) error {
	db, err := postgres.Open(ctx, url, postgres.DefaultLimits())
	if err != nil {
		return err
	}
	defer db.Close()
	registry := tenants.NewRegistry(db, app.NewID)
	write := []tenants.Permission{tenants.PaymentsWrite, tenants.PaymentsRead}
	for _, k := range []struct {
		tenant, secret string
		permissions    []tenants.Permission
	}{
		{"acme", "demo-acme-key", write},
		{"acme", "demo-acme-readonly-key", []tenants.Permission{tenants.PaymentsRead}},
		{"globex", "demo-globex-key", write},
		{"", "demo-operator-key", []tenants.Permission{tenants.OpsRead, tenants.OpsResolve}},
	} {
		if k.tenant != "" {
			if err := registry.Create(ctx, tenants.Tenant{
				ID: k.tenant, PSP: psp, PSPAccount: accountOf(k.tenant, psp),
				RequestsPerSecond: tenants.DefaultRate, Burst: tenants.DefaultBurst,
			}); err != nil && !errors.Is(err, tenants.ErrTenantExists) {
				return err
			}
		}
		if _, err := registry.AddKey(ctx, k.tenant, k.secret, "demo", k.permissions); err != nil &&
			!errors.Is(err, tenants.ErrSecretInUse) {
			return err
		}
	}
	return nil
}

// errAlreadyAsked refuses a crash while another one is waiting for its turn.
var errAlreadyAsked = errors.New("a crash is under way already")

// crash asks for the database to be killed and started again. It does not wait for that.
func (d *database) crash() error {
	select {
	case d.crashes <- struct{}{}:
		return nil
	default:
		return errAlreadyAsked
	}
}

// watch crashes the database when it is asked to, and ends the demo when the database ends by itself.
func (d *database) watch(ctx context.Context) error {
	if d.server == nil {
		return nil
	}
	for {
		select {
		case <-d.crashes:
			if err := d.restart(ctx); err != nil {
				return err
			}
		case <-d.server.Done():
			return errors.New("PostgreSQL has stopped; start the demo again, nothing is lost")
		case <-ctx.Done():
			return nil
		}
	}
}

// restart kills the server and starts it again, also when the demo is asked to stop meanwhile: payments in flight still
// need the database.
func (d *database) restart(ctx context.Context) error {
	d.ended()
	d.happens("crashes")
	next, err := d.server.Restart(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	d.server = next
	d.started(next.PID())
	d.serves()
	d.happens(sequence.Starts)
	return nil
}
