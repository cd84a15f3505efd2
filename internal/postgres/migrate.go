package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"payonce/db/migrations"
)

// ErrDevelopmentVersion refuses a database whose schema cannot be migrated to a released one.
var ErrDevelopmentVersion = errors.New("the database is of an older development version of Payonce, which cannot be brought to this one: " +
	"make a new, empty database and name it in DATABASE_URL")

// Migrate migrates the database at url to the newest schema. Many replicas may start at once: a session lock lets one
// work, and the others wait and then find nothing to do.
//
// Each migration commits together with its line in goose's table. If an acknowledgement is lost, the next run reads
// that table and continues from there.
//
// After that, each Role that CreateRoles has given access to this database has exactly the rights that its processes
// need for this schema. A database of a later release is left as it is, also its rights: those of this program could be
// fewer than what the later processes need.
func Migrate(ctx context.Context, url string, log *slog.Logger) error {
	m, err := NewMigration(url, log)
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// Migration is a run of Migrate.
type Migration struct {
	cfg *pgx.ConnConfig
	log *slog.Logger

	spread, distribute bool // the tables lie on many servers; they shall
}

// NewMigration prepares a run.
func NewMigration(url string, log *slog.Logger) (*Migration, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errUnreadableURL
	}
	return &Migration{cfg: cfg, log: log}, nil
}

// Run migrates.
func (m *Migration) Run(ctx context.Context) error {
	own := m.cfg.Copy()
	more, many := any(m).(distributes)
	if many {
		if err := more.begin(ctx, own); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	setDefault(own.RuntimeParams, "lock_timeout", milliseconds(migrateWaits))
	applied, err := migrateBesideOthers(ctx, own, m.log)
	if err != nil {
		return err
	}
	var later bool
	err = connected(ctx, m.cfg, func(conn *pgx.Conn) (err error) {
		later, err = ofLaterRelease(ctx, conn, m.log)
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	switch {
	case later && m.distribute:
		return errors.New("the schema is that of a later release, so nothing was distributed: " +
			"run api migrate --distribute of that release")
	case later && !many:
		return nil
	case many:
		if err := more.end(ctx, later); err != nil || later {
			return err
		}
	}
	if err := connected(ctx, m.cfg, func(conn *pgx.Conn) error { return m.grantRights(ctx, conn) }); err != nil {
		return err
	}
	m.log.InfoContext(ctx, "schema is current", slog.Int("applied", applied))
	return nil
}

// How long a migration waits for a table that is in use, such as by a backup. Meanwhile, all payments wait behind the
// migration. So it gives up before they do, lets them pass, and tries again.
const (
	migrateWaits = 500 * time.Millisecond
	migratePause = 2 * time.Second
	migrateTries = 30
)

func migrateBesideOthers(ctx context.Context, cfg *pgx.ConnConfig, log *slog.Logger) (applied int, err error) {
	for try := 1; ; try++ {
		applied, err = migrateUp(ctx, cfg, log)
		pg, answered := errors.AsType[*pgconn.PgError](err)
		if !answered || pg.Code != "55P03" || try == migrateTries {
			return applied, err
		}
		log.WarnContext(ctx, "a table is in use; the migration tries again", slog.Int("try", try))
		select {
		case <-ctx.Done():
			return applied, err
		case <-time.After(migratePause):
		}
	}
}

func migrateUp(ctx context.Context, cfg *pgx.ConnConfig, log *slog.Logger) (applied int, err error) {
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	provider, err := newProvider(db)
	if err != nil {
		return 0, err
	}
	if err := refuseDevelopmentVersion(ctx, db, provider); err != nil {
		return 0, err
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	for _, r := range results {
		log.DebugContext(ctx, "migrated", slog.Int64("version", r.Source.Version), slog.Duration("took", r.Duration))
	}
	return len(results), nil
}

// refuseDevelopmentVersion returns ErrDevelopmentVersion if the database has a migration that this program does not
// have any more. It ignores versions above our newest: they belong to a later release.
func refuseDevelopmentVersion(ctx context.Context, db *sql.DB, provider *goose.Provider) error {
	ours := []int64{0} // goose writes a first line with version 0.
	for _, source := range provider.ListSources() {
		ours = append(ours, source.Version)
	}
	var there, strange bool
	err := db.QueryRowContext(ctx, "SELECT to_regclass('goose_db_version') IS NOT NULL").Scan(&there)
	if err == nil && there {
		err = db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM goose_db_version
			WHERE version_id < $1 AND version_id <> ALL ($2::bigint[]))`, slices.Max(ours), ours).Scan(&strange)
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if strange {
		return ErrDevelopmentVersion
	}
	return nil
}

func newProvider(db *sql.DB) (*goose.Provider, error) {
	// A process that waits tries the lock every second, for five minutes. The default is every five seconds.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return nil, fmt.Errorf("prepare migration lock: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS(),
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("load migrations: %w", err)
	}
	return provider, nil
}

// ofLaterRelease reports whether the database has a migration that comes after ours, and logs a warning if so.
func ofLaterRelease(ctx context.Context, conn *pgx.Conn, log *slog.Logger) (later bool, err error) {
	ours, err := SchemaVersion()
	if err != nil {
		return false, err
	}
	err = conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) > $1 FROM goose_db_version", ours).Scan(&later)
	if err != nil || !later {
		return false, err
	}
	log.WarnContext(ctx, "the schema is that of a later release; nothing was changed")
	return true, warnOfMissingRights(ctx, conn, log)
}

// SchemaVersion is the newest migration that this binary carries.
func SchemaVersion() (int64, error) {
	names, err := fs.Glob(migrations.FS(), "*.sql")
	if err != nil {
		return 0, fmt.Errorf("list migrations: %w", err)
	}
	return goose.NumericComponent(slices.Max(names)) // All numbers have the same length.
}

// AppliedVersion is the newest migration that the database has.
func (db *DB) AppliedVersion(ctx context.Context) (int64, error) {
	var v int64
	err := db.Reader().QueryRow(ctx,
		"SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&v)
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return v, nil
}
