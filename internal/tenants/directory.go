package tenants

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"

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
	KeyID             uuid.UUID // of the API key
	KeyLabel          string    // what its administrator calls it; may be empty, and is not unique
	Tenant            string    // empty for an operator
	PSPAccount        string
	RequestsPerSecond int
	Burst             int

	permissions []string
}

// May reports whether the principal holds a permission.
func (p Principal) May(permission Permission) bool {
	return slices.Contains(p.permissions, string(permission))
}

// longestReading is how long a request waits for a reading. One that takes longer goes on for the benefit of the next.
const longestReading = 5 * time.Second

// Directory authenticates by what it has read of the table, so that a request costs no round trip for it. It is
// safe for concurrent use.
type Directory struct {
	db  *postgres.DB
	now func() time.Time

	reading singleflight.Group // one at a time, and nobody holds mu meanwhile

	mu      sync.Mutex
	entries map[[sha256.Size]byte]Principal // by the digest of the secret
	read    time.Time                       // when the reading in use was begun; zero before the first
	tried   time.Time
	failed  error // of the last try
}

// NewDirectory returns a Directory that reads on first use.
func NewDirectory(db *postgres.DB, now func() time.Time) *Directory {
	return &Directory{db: db, now: now}
}

// Authenticate finds out whose secret it is, or fails with ErrUnauthenticated.
func (d *Directory) Authenticate(ctx context.Context, secret string) (Principal, error) {
	digest := sha256.Sum256([]byte(secret))
	found, known, read := d.look(digest)
	age := d.now().Sub(read)
	if read.IsZero() || age > freshFor || (!known && age > missFor) {
		// Who is not in a stale reading may be in the table: that is no refusal, but not known.
		if err := d.refresh(ctx); err != nil && (read.IsZero() || age > staleFor || !known) {
			return Principal{}, err
		}
		found, known, _ = d.look(digest)
	}
	if !known {
		return Principal{}, ErrUnauthenticated
	}
	return found, nil
}

// look finds a digest in the reading in use, and tells when that was begun.
func (d *Directory) look(digest [sha256.Size]byte) (found Principal, known bool, read time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, known = d.entries[digest]
	return found, known, d.read
}

// refresh waits for a reading, its own or one that is under way.
func (d *Directory) refresh(ctx context.Context) error {
	// The reading serves everybody: the end of the request that happened to need it does not stop it.
	ctx = context.WithoutCancel(ctx)
	result := d.reading.DoChan("", func() (any, error) { return nil, d.readTable(ctx) })
	patience := time.NewTimer(longestReading)
	defer patience.Stop()
	select {
	case r := <-result:
		return r.Err
	case <-patience.C:
		return &postgres.UnavailableError{Op: "read API keys", Err: context.DeadlineExceeded}
	}
}

// readTable reads all active keys. After a failure it does not try again at once: a database that is away is not asked by every
// request.
func (d *Directory) readTable(ctx context.Context) error {
	now := d.now()
	d.mu.Lock()
	tried, failed := d.tried, d.failed
	d.mu.Unlock()
	if !tried.IsZero() && now.Sub(tried) < missFor {
		return failed
	}
	rows, err := dbsqlc.New(d.db.Reader()).ListActiveKeys(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tried, d.failed = now, nil
	if err != nil {
		d.failed = fmt.Errorf("read API keys: %w", err)
		return d.failed
	}
	d.entries, d.read = entriesOf(rows), now
	return nil
}

func entriesOf(rows []dbsqlc.ListActiveKeysRow) map[[sha256.Size]byte]Principal {
	entries := make(map[[sha256.Size]byte]Principal, len(rows))
	for _, r := range rows {
		p := Principal{KeyID: r.ID, KeyLabel: r.Label, permissions: r.Scopes}
		if r.TenantID != nil {
			p.Tenant, p.PSPAccount = *r.TenantID, *r.PspAccount
			p.RequestsPerSecond, p.Burst = int(*r.RequestsPerSecond), int(*r.RequestBurst)
		}
		entries[[sha256.Size]byte(r.SecretSha256)] = p
	}
	return entries
}
