package commands

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/user"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/cli"
	"payonce/internal/deadletters"
	"payonce/internal/operator"
	"payonce/internal/postgres"
)

const dlqHelp = `Usage:
  reconciler dlq list [--status open|resolved] [--limit N] [--cursor CURSOR] [--json]
      lists dead letters, newest first
  reconciler dlq show ID [--json]
      shows a dead letter with its evidence, its key's timeline, and the decisions of operators
  reconciler dlq resolve ID --action ACTION --reason TEXT [--version N] [--psp-id ID] [--actor NAME] [--json]
      closes a dead letter for good. The decision is written to the audit trail, also if it is refused

  --action   retry         do the work again: look the key up at once, or process the job, webhook or record again
             executed      the money has moved: complete the key as a success. Refused if the PSP says that it declined,
                           or has no record of it after the grace period
             not_executed  no money has moved: release the key, so that the client may execute it again. Refused if the PSP
                           knows the movement, lists other money that moved under the key, or does not answer, or if the
                           grace period is not over. If the PSP has declined something else than was asked, complete the
                           key as that decline
             dismiss       close the dead letter and change nothing else. Refused while its key is in progress or unknown,
                           unless another dead letter about the key is open
  --version  the version of the dead letter that you have read. If the dead letter has changed since then, the decision is
             refused. By default the current version
  --psp-id   with executed: the PSP's id of the movement, if you know the id and the PSP does not say it. Before a refund,
             the PSP is asked to show that it is this payment's
  --actor    the person who decides, for the audit trail. By default the user who is logged in

Exit code: 0 done, 1 refused or failed, 2 the command line is wrong. The message says why.
`

// DLQDeps is what DLQ works with.
type DLQDeps struct {
	Open   func() (*operator.Service, func(), error) // with what closes it again
	Stdout io.Writer
}

// errand is a command whose arguments have been read.
type errand func(ctx context.Context, ops *operator.Service, stdout io.Writer) error

// DLQ works off dead letters from the command line, on the database and the PSP themselves: it needs no running server.
// What is wrong with the command line is said before anything is opened.
func DLQ(ctx context.Context, args []string, d DLQDeps) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	parse := map[string]func([]string) (errand, error){"list": listDeadLetters, "show": showDeadLetter,
		"resolve": resolveDeadLetter}[command]
	switch {
	case command == "help", cli.AsksForHelp([]string{command}), parse != nil && cli.AsksForHelp(args):
		_, err := io.WriteString(d.Stdout, dlqHelp)
		return err
	case parse == nil:
		return cli.Usagef("say dlq list, dlq show or dlq resolve; see reconciler dlq --help")
	}
	do, err := parse(args)
	if err != nil {
		return err
	}
	ops, done, err := d.Open()
	if err != nil {
		return err
	}
	defer done()
	return explainDatabase(do(ctx, ops, d.Stdout))
}

// explainDatabase says what to look at when there is no database.
func explainDatabase(err error) error {
	if postgres.Unavailable(err) {
		return fmt.Errorf("%w; is the database at DATABASE_URL up, and migrated by api migrate?", err)
	}
	return err
}

func listDeadLetters(args []string) (errand, error) {
	flags := cli.NewFlags("reconciler dlq")
	status := flags.String("status", string(deadletters.OpenStatus), "")
	limit := flags.Int("limit", deadletters.DefaultPage, "")
	cursor := flags.String("cursor", "", "")
	asJSON := flags.Bool("json", false, "")
	if err := cli.Parse(flags, args, 0); err != nil {
		return nil, err
	}
	f := deadletters.Filter{Status: deadletters.Status(*status), Limit: *limit}
	if f.Status != deadletters.OpenStatus && f.Status != deadletters.ResolvedStatus {
		return nil, cli.Usagef("--status must be open or resolved")
	}
	if f.Limit < 1 || f.Limit > deadletters.MaxPage {
		return nil, cli.Usagef("--limit must be from 1 to %d", deadletters.MaxPage)
	}
	if *cursor != "" {
		before, err := deadletters.ParseCursor(*cursor)
		if f.Before = &before; err != nil {
			return nil, cli.Usagef("--cursor must be one that an earlier list has ended with")
		}
	}
	return func(ctx context.Context, ops *operator.Service, stdout io.Writer) error {
		page, err := ops.List(ctx, f)
		if err != nil {
			return err
		}
		if *asJSON {
			return printJSON(stdout, page)
		}
		return printPage(stdout, f.Status, page)
	}, nil
}

func showDeadLetter(args []string) (errand, error) {
	flags := cli.NewFlags("reconciler dlq")
	asJSON := flags.Bool("json", false, "")
	if err := cli.Parse(flags, args, 1); err != nil {
		return nil, err
	}
	id, err := deadLetterID(flags.Arg(0))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, ops *operator.Service, stdout io.Writer) error {
		c, err := ops.Show(ctx, id)
		if err != nil {
			return explainDeadLetter(id, err)
		}
		if *asJSON {
			return printJSON(stdout, c)
		}
		return printCase(stdout, c)
	}, nil
}

func resolveDeadLetter(args []string) (errand, error) {
	flags := cli.NewFlags("reconciler dlq")
	action := flags.String("action", "", "")
	reason := flags.String("reason", "", "")
	version := flags.Int("version", 0, "")
	pspID := flags.String("psp-id", "", "")
	actor := flags.String("actor", "", "")
	asJSON := flags.Bool("json", false, "")
	if err := cli.Parse(flags, args, 1); err != nil {
		return nil, err
	}
	id, err := deadLetterID(flags.Arg(0))
	if err != nil {
		return nil, err
	}
	asked := operator.Decision{
		DeadLetter: id, Version: clampVersion(*version), Action: deadletters.Action(*action), Reason: *reason,
		Actor: cmp.Or(*actor, loginName()), PSPID: *pspID,
	}
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == "version" })
	if !given {
		asked.Version = 1 // the least that can be; the one that it has is read later
	}
	if err := checkDecision(asked); err != nil {
		return nil, err
	}
	return func(ctx context.Context, ops *operator.Service, stdout io.Writer) error {
		if !given {
			c, err := ops.Show(ctx, id)
			if err != nil {
				return explainDeadLetter(id, err)
			}
			asked.Version = c.Version
		}
		return decide(ctx, ops, stdout, asked, *asJSON)
	}, nil
}

func decide(ctx context.Context, ops *operator.Service, stdout io.Writer, asked operator.Decision, asJSON bool) error {
	result, err := ops.Resolve(ctx, asked)
	if err != nil {
		return explainDeadLetter(asked.DeadLetter, err)
	}
	switch v := result.(type) {
	case operator.Refused:
		return fmt.Errorf("refused: %s See reconciler dlq show %s", v.Detail, asked.DeadLetter)
	case operator.Done:
		if asJSON {
			return printJSON(stdout, v.Entry)
		}
		_, err = fmt.Fprintf(stdout, "Resolved %s as %s, by %s.\n", asked.DeadLetter, asked.Action, plain(asked.Actor))
	}
	return err
}

// checkDecision names the flags that are wrong.
func checkDecision(asked operator.Decision) error {
	var wrong []error
	for _, i := range asked.Validate() {
		name := strings.TrimPrefix(i.Pointer, "/")
		if name == "pspId" {
			name = "psp-id"
		}
		wrong = append(wrong, fmt.Errorf("--%s %s", name, i.Detail))
	}
	if len(wrong) == 0 {
		return nil
	}
	return cli.Usagef("%w; see reconciler dlq --help", errors.Join(wrong...))
}

// clampVersion keeps a number that no dead letter can have one that no dead letter can have.
func clampVersion(v int) int32 {
	if int(int32(v)) != v { //nolint:gosec // that is the question
		return 0
	}
	return int32(v) //nolint:gosec // it fits
}

// loginName is who is logged in, or the empty string: then --actor is asked for.
func loginName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

func deadLetterID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return uuid.UUID{}, cli.Usagef("name a dead letter by its id; reconciler dlq list shows them")
	}
	return id, nil
}

func explainDeadLetter(id uuid.UUID, err error) error {
	if errors.Is(err, deadletters.ErrNoDeadLetter) {
		return fmt.Errorf("there is no dead letter %s; reconciler dlq list shows those that there are", id)
	}
	return err
}

func printJSON(w io.Writer, v any) error {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", raw)
	return err
}
