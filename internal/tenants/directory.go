package tenants

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"payonce/internal/postgres"
	"payonce/internal/tenants/internal/dbsqlc"
)

// How long the directory believes what it has read.
const (
	freshFor = 5 * time.Second  // a new key works, and a revoked one stops, within this time
	missFor  = time.Second      // an unknown key has the table read again, but not more often than this
	staleFor = 60 * time.Second // while the database is away, the last reading is good for this long
)

// ErrUnauthenticated says that a secret belongs to no active key.
var ErrUnauthenticated = errors.New("unauthenticated")

// Principal is who a request comes from.
type Principal struct {
	Tenant            string // empty for an operator
	PSPAccount        string
	RequestsPerSecond int
	Burst             int

	permissions []string
}

// May reports whether the principal holds a permission.
func (p Principal) May(permission Permission) bool {
	return slices.Contains(p.permissions, string(permission))
}

// Directory authenticates by what it has read of the table, so that a request costs no round trip for it. It is
// safe for concurrent use.
type Directory struct {
	db  *postgres.DB
	now func() time.Time

	mu      sync.Mutex
	entries map[[sha256.Size]byte]entry
	read    time.Time // when the reading in use was begun; zero before the first
	tried   time.Time
	failed  error // of the last try
}

type entry struct {
	digest    []byte
	principal Principal
}

// NewDirectory returns a Directory that reads on first use.
func NewDirectory(db *postgres.DB, now func() time.Time) *Directory {
	return &Directory{db: db, now: now}
}

// Authenticate finds out whose secret it is, or fails with ErrUnauthenticated.
func (d *Directory) Authenticate(ctx context.Context, secret string) (Principal, error) {
	digest := sha256.Sum256([]byte(secret))
	d.mu.Lock()
	defer d.mu.Unlock()
	found, known := d.entries[digest]
	age := d.now().Sub(d.read)
	if d.read.IsZero() || age > freshFor || (!known && age > missFor) {
		// Who is not in a stale reading may be in the table: that is no refusal, but not known.
		if err := d.refresh(ctx); err != nil && (d.read.IsZero() || age > staleFor || !known) {
			return Principal{}, err
		}
		found, known = d.entries[digest]
	}
	if !known || subtle.ConstantTimeCompare(found.digest, digest[:]) != 1 {
		return Principal{}, ErrUnauthenticated
	}
	return found.principal, nil
}

// refresh reads all active keys. After a failure it does not try again at once: a database that is away is not asked by
// every request.
func (d *Directory) refresh(ctx context.Context) error {
	now := d.now()
	if !d.tried.IsZero() && now.Sub(d.tried) < missFor {
		return d.failed
	}
	d.tried = now
	// The reading serves everybody: the end of the request that happened to need it does not stop it.
	ctx = context.WithoutCancel(ctx)
	var rows []dbsqlc.ListActiveKeysRow
	err := d.db.Read(ctx, func(c *pgxpool.Conn) error {
		var err error
		rows, err = dbsqlc.New(c).ListActiveKeys(ctx)
		return err
	})
	if err != nil {
		d.failed = fmt.Errorf("read API keys: %w", err)
		return d.failed
	}
	entries := make(map[[sha256.Size]byte]entry, len(rows))
	for _, r := range rows {
		p := Principal{permissions: r.Scopes}
		if r.TenantID != nil {
			p.Tenant, p.PSPAccount = *r.TenantID, *r.PspAccount
			p.RequestsPerSecond, p.Burst = int(*r.RequestsPerSecond), int(*r.RequestBurst)
		}
		entries[[sha256.Size]byte(r.SecretSha256)] = entry{digest: r.SecretSha256, principal: p}
	}
	d.entries, d.read, d.failed = entries, now, nil
	return nil
}
