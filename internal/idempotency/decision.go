package idempotency

import (
	"time"

	"github.com/google/uuid"

	"payonce/internal/idempotency/internal/dbsqlc"
)

// Response is what is replayed: everything of an answer that the client can tell apart, to the byte.
type Response struct {
	Status        int
	ContentType   string
	Location      string
	SchemaVersion int
	Body          []byte
}

// Execution names one execution of a key, past or present. It gives no right to anything: who has read a row can name one.
type Execution struct {
	Ref        Ref
	LeaseID    uuid.UUID
	Subject    uuid.UUID
	Attempt    int32
	Generation int32
}

// PassThroughKey is the Idempotency-Key that was sent on: the same on every attempt of a generation.
func (e Execution) PassThroughKey() string { return passThrough(e.Ref.Key, e.Generation) }

// Lease is the exclusive right to execute a key once. Only a winner holds one.
type Lease struct {
	ref        Ref
	id         uuid.UUID
	subject    uuid.UUID
	attempt    int32
	generation int32
	expires    time.Time
	asked      time.Time
}

// Execution names what the lease is for.
func (l Lease) Execution() Execution {
	return Execution{Ref: l.ref, LeaseID: l.id, Subject: l.subject, Attempt: l.attempt, Generation: l.generation}
}

// Ref is the key that the lease is for.
func (l Lease) Ref() Ref { return l.ref }

// ID tells this lease from any other, also from one of a rival with the same attempt number.
func (l Lease) ID() uuid.UUID { return l.id }

// Subject is the domain object that this generation of the key stands for.
func (l Lease) Subject() uuid.UUID { return l.subject }

// Attempt is the fencing token, from 1.
func (l Lease) Attempt() int32 { return l.attempt }

// Generation counts from 1.
func (l Lease) Generation() int32 { return l.generation }

// Expires is when the key, not the lease, ends; by the database's clock.
func (l Lease) Expires() time.Time { return l.expires }

// PassThroughKey is the Idempotency-Key to send on: the same on every attempt of a generation.
func (l Lease) PassThroughKey() string { return passThrough(l.ref.Key, l.generation) }

// Decision is what a reservation found: one of Execute, Replay, InProgress, Misuse, Unknown, Retake, LeaseOver.
//
//sumtype:decl
type Decision interface{ decision() }

// Execute: the key is ours, execute it.
type Execute struct{ Lease Lease }

// Replay: the key is completed, answer this again.
type Replay struct {
	Response Response
	Expires  time.Time
}

// InProgress: somebody else executes the key now.
type InProgress struct {
	Subject uuid.UUID
	Expires time.Time
}

// Misuse: the key stands for another request.
type Misuse struct{ Expires time.Time }

// Unknown: the key may have been executed; nobody may do it again.
type Unknown struct {
	Subject uuid.UUID
	Expires time.Time
}

// Retake: the key is free to be executed again, by Keys.Retake.
type Retake struct{ seen snapshot }

// Renews reports whether the retake begins a new generation, with a subject of its own.
func (r Retake) Renews() bool { return r.seen.Status == ExpiredStatus }

// Subject is the domain object of the generation so far.
func (r Retake) Subject() uuid.UUID { return r.seen.Subject }

// Expires is when the key ends.
func (r Retake) Expires() time.Time { return r.seen.Expires }

// Same reports whether both have seen the key in the same state: nobody has taken it in between.
func (r Retake) Same(other Retake) bool {
	return r.seen.Status == other.seen.Status && r.seen.Generation == other.seen.Generation && r.seen.Attempt == other.seen.Attempt
}

// LeaseOver: the owner is gone or late; Keys.ExpireLease makes the key unknown.
type LeaseOver struct{ seen snapshot }

// Subject is the domain object of the key.
func (l LeaseOver) Subject() uuid.UUID { return l.seen.Subject }

// Expires is when the key ends.
func (l LeaseOver) Expires() time.Time { return l.seen.Expires }

func (Execute) decision()    {}
func (Replay) decision()     {}
func (InProgress) decision() {}
func (Misuse) decision()     {}
func (Unknown) decision()    {}
func (Retake) decision()     {}
func (LeaseOver) decision()  {}

// snapshot is a row as it was read, with what the database's clock said of its lease.
type snapshot struct {
	Record
	leaseOver bool
}

// Record is a key's row, for inspection.
type Record struct {
	Ref         Ref
	Status      Status
	Fingerprint Fingerprint
	Attempt     int32
	Generation  int32
	LeaseID     uuid.UUID
	Subject     uuid.UUID
	Created     time.Time
	Reserved    time.Time
	LockedUntil *time.Time
	Finished    *time.Time
	Expires     time.Time
	Response    *Response
}

// Execution names the key's latest execution.
func (r Record) Execution() Execution {
	return Execution{Ref: r.Ref, LeaseID: r.LeaseID, Subject: r.Subject, Attempt: r.Attempt, Generation: r.Generation}
}

// decide reads a row for a request with this fingerprint. An expired key is free for any; any other is
// bound to its fingerprint, whatever else it is.
func (s snapshot) decide(fingerprint Fingerprint) Decision {
	if s.Status == ExpiredStatus {
		return Retake{seen: s}
	}
	if s.Fingerprint != fingerprint {
		return Misuse{Expires: s.Expires}
	}
	switch s.Status {
	case CompletedStatus:
		return Replay{Response: *s.Response, Expires: s.Expires}
	case FailedRetryableStatus:
		return Retake{seen: s}
	case InProgressStatus:
		if s.leaseOver {
			return LeaseOver{seen: s}
		}
		return InProgress{Subject: s.Subject, Expires: s.Expires}
	case UnknownStatus, ExpiredStatus:
	}
	return Unknown{Subject: s.Subject, Expires: s.Expires}
}

// fromRow is the one mapper of a key's row.
func fromRow(ref Ref, row dbsqlc.FindKeyRow) snapshot {
	s := snapshot{
		leaseOver: row.LeaseOver,
		Record: Record{
			Ref: ref, Status: Status(row.Status), Fingerprint: Fingerprint(row.Fingerprint),
			Attempt: row.Attempt, Generation: row.Generation, LeaseID: row.LeaseID, Subject: row.Subject,
			Created: row.CreatedAt, Reserved: row.ReservedAt, LockedUntil: row.LockedUntil,
			Finished: row.FinishedAt, Expires: row.ExpiresAt,
		},
	}
	if row.ResponseBody != nil {
		s.Response = &Response{
			Status: int(*row.ResponseStatus), ContentType: *row.ResponseContentType,
			Location: *row.ResponseLocation, SchemaVersion: int(*row.ResponseSchemaVersion), Body: row.ResponseBody,
		}
	}
	return s
}
