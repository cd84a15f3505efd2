package commands

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"payonce/internal/cli"
	"payonce/internal/idempotency"
	"payonce/internal/operator"
	"payonce/internal/payment"
	"payonce/internal/payments"
	"payonce/internal/postgres"
)

const keyHelp = `Usage: reconciler key show KEY --tenant NAME [--operation OPERATION]

Shows the status of a key, the payment or refund of the key, and the key's timeline, oldest first.

  KEY          the client's Idempotency-Key, without quotes
  --tenant     the tenant of the key; api tenants list shows the tenants
  --operation  'POST /payments', the default, or 'POST /payments/{id}/refunds'

Exit code: 0 shown, 1 the key does not exist or could not be read, 2 the command line is wrong.
`

// Deps is what a command works with.
type Deps[T any] struct {
	Open   func() (T, func(), error) // opens what the command reads, and returns what closes it again
	Stdout io.Writer
}

// Books are where a key's story is read.
type Books struct {
	Keys      *idempotency.Keys
	Payments  *payments.Service
	Operators *operator.Service
}

// Key shows where a key stands and what has happened to it.
func Key(ctx context.Context, args []string, d Deps[Books]) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch {
	case command == "help", cli.AsksForHelp([]string{command}), command == "show" && cli.AsksForHelp(args):
		_, err := io.WriteString(d.Stdout, keyHelp)
		return err
	case command != "show":
		return cli.Usagef("say key show; see reconciler key --help")
	}
	asked, err := parseKey(cli.NewFlags("reconciler key"), "reconciler key show", args)
	if err != nil {
		return err
	}
	b, done, err := d.Open()
	if err != nil {
		return err
	}
	defer done()
	s, err := b.story(ctx, asked)
	if err != nil {
		return explainDatabase(err)
	}
	return s.print(d.Stdout)
}

// parseKey reads KEY, --tenant and --operation, and the flags that the command has added. command is how people type
// it. A key that was taken before the rules for keys became stricter is still there to be shown, so nothing is asked of
// its form.
func parseKey(flags *flag.FlagSet, command string, args []string) (ref idempotency.Ref, err error) {
	tenant := flags.String("tenant", "", "")
	operation := flags.String("operation", payment.CreateOperation, "")
	if err := cli.Parse(flags, args, 1); err != nil {
		return ref, err
	}
	switch {
	case flags.Arg(0) == "":
		return ref, cli.Usagef("name the key: %s KEY --tenant NAME", command)
	case *tenant == "":
		return ref, cli.Usagef("name the tenant by --tenant; api tenants list shows them")
	case *operation != payment.CreateOperation && *operation != payment.RefundOperation:
		return ref, cli.Usagef("--operation must be '%s' or '%s'", payment.CreateOperation, payment.RefundOperation)
	}
	return idempotency.StoredRef(*tenant, *operation, flags.Arg(0)), nil
}

// story is a key with all that belongs to it.
type story struct {
	record   idempotency.KeyRow
	payment  *payment.Payment // nil when the payment has been deleted
	refund   *payment.Refund  // nil for a key that is for payments
	timeline []idempotency.Event
}

func (b Books) story(ctx context.Context, ref idempotency.Ref) (s story, err error) {
	if s.record, err = b.Keys.Find(ctx, ref); err != nil {
		if errors.Is(err, idempotency.ErrNoKey) {
			return s, b.explainNoKey(ctx, ref)
		}
		return s, err
	}
	events, err := b.Keys.Events(ctx, ref)
	if err != nil {
		return s, err
	}
	s.timeline = s.record.Timeline(events)
	id := payment.ID(s.record.Subject)
	if ref.Operation == payment.RefundOperation {
		refund, err := b.Payments.RefundByID(ctx, ref.Tenant, payment.RefundID(s.record.Subject))
		if err != nil {
			return s, ignoreMissing(err)
		}
		s.refund, id = &refund, refund.PaymentID
	}
	payment, err := b.Payments.Payment(ctx, ref.Tenant, id)
	if err != nil {
		return s, ignoreMissing(err)
	}
	s.payment = &payment
	return s, nil
}

// ignoreMissing lets a key be shown whose payment or refund is not there.
func ignoreMissing(err error) error {
	if errors.Is(err, payments.ErrPaymentNotFound) || errors.Is(err, payments.ErrRefundNotFound) {
		return nil
	}
	return err
}

// explainNoKey says what holds the key without a row. It looks at the other operation, too: a key is unique within one.
func (b Books) explainNoKey(ctx context.Context, ref idempotency.Ref) error {
	holder, err := b.Operators.Holder(ctx, ref)
	switch {
	case err != nil:
		return err
	case holder != "":
		return fmt.Errorf("an open dead letter holds the key %q of tenant %q: nothing is executed under it until an operator "+
			"has decided; see /console/dead-letters/%s of the operator's listener", ref.Key, ref.Tenant, holder)
	}
	tenant, key, other := ref.Tenant, ref.Key.String(), payment.RefundOperation
	if string(ref.Operation) == other {
		other = payment.CreateOperation
	}
	_, err = b.Keys.Find(ctx, idempotency.StoredRef(tenant, other, key))
	switch {
	case err == nil:
		return fmt.Errorf("tenant %q has this key for another operation: add --operation '%s'", tenant, other)
	case errors.Is(err, idempotency.ErrNoKey):
		return fmt.Errorf("tenant %q has no key %q: it was never used, or has been deleted; api tenants list shows the tenants", tenant, key)
	}
	return err
}

// explainDatabase says what to look at when there is no database.
func explainDatabase(err error) error {
	if postgres.Unavailable(err) {
		return fmt.Errorf("%w; is the database at DATABASE_URL up, and migrated by api migrate?", err)
	}
	return err
}
