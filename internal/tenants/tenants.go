// Package tenants owns who may call Payonce: tenants, their API keys, and what each key allows. It knows no HTTP.
//
// An API key is a random secret that is shown once. The table has the SHA-256 of the secret, and a key is found by that
// digest. Secrets are never compared with each other. The time of a look-up may tell something about a digest, but
// nothing about the secret. Each key has its own end, so an old key and a new one can overlap.
package tenants

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"payonce/internal/postgres"
	"payonce/internal/tenants/internal/dbsqlc"
)

// Permission is what an API key allows. The HTTP API calls a permission a scope.
type Permission string

// The permissions of tenants and of operators. A key has permissions of one of the two only.
const (
	PaymentsWrite Permission = "payments:write"
	PaymentsRead  Permission = "payments:read"
	OpsRead       Permission = "ops:read"
	OpsResolve    Permission = "ops:resolve"
)

// The errors of the administration.
var (
	ErrNoTenant    = errors.New("no such tenant")
	ErrNoAPIKey    = errors.New("no such API key")
	ErrSecretInUse = errors.New("an API key with this secret exists")
	// ErrMalformed is wrapped in an error that says which values are allowed.
	ErrMalformed = errors.New("malformed")
)

// MaxRate is the highest rate limit and burst of a tenant.
const MaxRate = 100_000

// Registry administers tenants and their keys.
type Registry struct {
	db    *postgres.DB
	newID func() (uuid.UUID, error)
}

// NewRegistry returns a Registry on db.
func NewRegistry(db *postgres.DB, newID func() (uuid.UUID, error)) *Registry {
	return &Registry{db: db, newID: newID}
}

// APIKey is a key without its secret.
type APIKey struct {
	ID          uuid.UUID
	Tenant      string // empty for an operator's key
	Permissions []string
	Label       string
	Created     time.Time
	Expires     *time.Time
	Expired     bool
}

// NewSecret makes an API key's secret: a prefix that secret scanners can recognise, and 32 random bytes.
func NewSecret(random io.Reader) (string, error) {
	raw := make([]byte, 32)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("read randomness: %w", err)
	}
	return fmt.Sprintf("payonce_%x", raw), nil
}

// KeyInDoubtError says that an API key may or may not be stored. The caller must not show the secret. Then nobody can
// use the key, even if it is stored, and ExpireKey ends it.
type KeyInDoubtError struct {
	ID  uuid.UUID // the id of the key
	Err error     // why the outcome is not known
}

func (e *KeyInDoubtError) Error() string {
	return fmt.Sprintf("whether API key %s exists is not known: %v", e.ID, e.Err)
}

// Unwrap returns the cause.
func (e *KeyInDoubtError) Unwrap() error { return e.Err }

// AddKey stores the digest of a secret for a tenant, or for operators if tenant is empty. A key that it returns is
// durable: a failover does not lose it. AddKey may fail with a KeyInDoubtError.
func (r *Registry) AddKey(ctx context.Context, tenant, secret, label string, permissions []Permission) (APIKey, error) {
	id, err := r.newID()
	if err != nil {
		return APIKey{}, fmt.Errorf("make API key id: %w", err)
	}
	digest := sha256.Sum256([]byte(secret))
	names := make([]string, len(permissions))
	for i, p := range permissions {
		names[i] = string(p)
	}
	slices.Sort(names)
	var created time.Time
	err = r.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		created, err = dbsqlc.New(tx).InsertKey(ctx, dbsqlc.InsertKeyParams{
			ID: id, TenantID: postgres.Nullable(tenant), SecretSha256: digest[:], Scopes: names, Label: label,
		})
		return err
	})
	err = r.db.OrFind(ctx, err, func(ctx context.Context, q postgres.Statement) (found bool, err error) {
		keys, err := dbsqlc.New(q).ListKeys(ctx, dbsqlc.ListKeysParams{ID: &id, MaxRows: 1})
		for _, key := range keys {
			created = key.CreatedAt
		}
		return len(keys) == 1, err
	})
	var doubt *postgres.AmbiguousError
	switch {
	case errors.As(err, &doubt):
		return APIKey{}, &KeyInDoubtError{ID: id, Err: err}
	case errors.Is(err, pgx.ErrNoRows):
		return APIKey{}, ErrSecretInUse
	case postgres.Violates(err, "api_keys_tenant_id_fkey"):
		return APIKey{}, ErrNoTenant
	case postgres.Violates(err, "api_keys_scopes_fit_owner"):
		return APIKey{}, fmt.Errorf("scopes %w: a tenant's key takes payments:read and payments:write, an operator's ops:read and ops:resolve", ErrMalformed)
	case err != nil:
		return APIKey{}, fmt.Errorf("store API key: %w", err)
	}
	return APIKey{ID: id, Tenant: tenant, Permissions: names, Label: label, Created: created}, nil
}

// maxListed bounds the lists of keys and of tenants.
const maxListed = 1000

// Keys lists the API keys, oldest first, at most 1000.
func (r *Registry) Keys(ctx context.Context) ([]APIKey, error) {
	rows, err := dbsqlc.New(r.db.Reader()).ListKeys(ctx, dbsqlc.ListKeysParams{MaxRows: maxListed})
	if err != nil {
		return nil, fmt.Errorf("list API keys: %w", err)
	}
	var keys []APIKey
	for _, k := range rows {
		keys = append(keys, APIKey{
			ID: k.ID, Tenant: postgres.Text(k.TenantID), Permissions: k.Scopes, Label: k.Label, Created: k.CreatedAt,
			Expires: k.ExpiresAt, Expired: k.Expired,
		})
	}
	return keys, nil
}

// ExpireKey ends a key after the given time from now, by the database's clock. It never moves an earlier end to a later
// time.
func (r *Registry) ExpireKey(ctx context.Context, id uuid.UUID, after time.Duration) (time.Time, error) {
	var at *time.Time
	err := r.db.Transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		at, err = dbsqlc.New(tx).ExpireKey(ctx, dbsqlc.ExpireKeyParams{ID: id, After: after})
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return time.Time{}, ErrNoAPIKey
	case err != nil:
		return time.Time{}, fmt.Errorf("expire API key: %w", err)
	}
	return *at, nil
}
