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

// How long a reading of the table is used.
const (
	freshFor = 5 * time.Second  // a new key works, and a revoked one stops, within this time
	missFor  = time.Second      // an unknown key makes the directory read again, at most this often
	staleFor = 60 * time.Second // if the database is away, the last reading is used for this long
)

// ErrUnauthenticated says that a secret belongs to no active key.
var ErrUnauthenticated = errors.New("unauthenticated")

// Principal is the owner of the API key of a request.
type Principal struct {
	KeyID             uuid.UUID // the id of the API key
	KeyLabel          string    // the administrator's name for the key; may be empty, and is not unique
	Tenant            string    // empty for an operator
	PSP               PSP       // empty for an operator, as the account
	PSPAccount        string
	RequestsPerSecond int
	Burst             int
	Tells             bool // the tenant wants events

	permissions []string
}

// May reports whether the principal has a permission.
func (p Principal) May(permission Permission) bool {
	return slices.Contains(p.permissions, string(permission))
}

// Actor names the principal in an audit trail: the label of the API key, if it has one, and its id. The label is not
// enough, because two operators may have the same one.
func (p Principal) Actor() string {
	id := "api key " + p.KeyID.String()
	if p.KeyLabel != "" {
		return p.KeyLabel + " (" + id + ")"
	}
	return id
}

// longestReading is how long a request waits for a reading of the table. A reading that takes longer continues, and the
// next request uses it.
const longestReading = 5 * time.Second

// Directory authenticates from its last reading of the table, so a request needs no round trip. It is safe for
// concurrent use.
type Directory struct {
	db  *postgres.DB
	now func() time.Time

	reading singleflight.Group // one reading at a time; mu is not held while it runs

	mu      sync.Mutex
	entries map[[sha256.Size]byte]Principal // by the digest of the secret
	read    time.Time                       // when the last successful reading began; zero before the first
	tried   time.Time                       // when the last reading began; zero, and so long ago, before the first
	failed  error                           // the error of the last try
}

// NewDirectory returns a Directory. It reads the table when it is first used.
func NewDirectory(db *postgres.DB, now func() time.Time) *Directory {
	return &Directory{db: db, now: now}
}

// Authenticate finds the principal of a secret. It fails with ErrUnauthenticated.
func (d *Directory) Authenticate(ctx context.Context, secret string) (Principal, error) {
	digest := sha256.Sum256([]byte(secret))
	found, known, read := d.look(digest)
	age := d.now().Sub(read)
	if read.IsZero() || age > freshFor || (!known && age > missFor) {
		// A key that is not in an old reading may be in the table by now. So this error is not ErrUnauthenticated.
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

// Forget has the next request read the table again: this process has changed what it says.
func (d *Directory) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tried = time.Time{}
	d.read = d.read.Add(-freshFor - 1) // If the database is away, the last reading is used all the same.
}

// look finds a digest in the last reading, and returns when that reading began.
func (d *Directory) look(digest [sha256.Size]byte) (found Principal, known bool, read time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	found, known = d.entries[digest]
	return found, known, d.read
}

// refresh waits for a reading: a new one, or one that is running already.
func (d *Directory) refresh(ctx context.Context) error {
	// All requests use the reading, so the end of the request that began it must not stop it.
	ctx = context.WithoutCancel(ctx)
	result := d.reading.DoChan("", func() (any, error) { return nil, d.readTable(ctx) })
	select {
	case r := <-result:
		return r.Err
	case <-time.After(longestReading):
		return &postgres.UnavailableError{Op: "read API keys", Err: context.DeadlineExceeded}
	}
}

// readTable reads all active keys. After a failure it does not try again at once, so that not every request asks a
// database that is away.
func (d *Directory) readTable(ctx context.Context) error {
	now := d.now()
	d.mu.Lock()
	tried, failed := d.tried, d.failed
	d.mu.Unlock()
	if now.Sub(tried) < missFor {
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
			p.Tenant, p.PSP, p.PSPAccount = *r.TenantID, PSP(*r.Psp), *r.PspAccount
			p.RequestsPerSecond, p.Burst, p.Tells = int(*r.RequestsPerSecond), int(*r.RequestBurst), *r.Tells
		}
		entries[[sha256.Size]byte(r.SecretSha256)] = p
	}
	return entries
}
