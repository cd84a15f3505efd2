package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"payonce/internal/deadletters"
	"payonce/internal/operator"
	"payonce/internal/postgres"
)

const dlqHelp = `Usage:
  reconciler dlq list [--status open|resolved] [--limit N] [--cursor CURSOR] [--json]
      lists dead letters, newest first
  reconciler dlq show ID [--json]
      shows one with its evidence, the timeline of its key, and what operators have done about it
  reconciler dlq resolve ID --action ACTION --reason TEXT [--version N] [--psp-id ID] [--actor NAME] [--json]
      closes one for good, and what was decided is audited; so is what was refused

  --action   retry         find out once more: look the key up at once, or run the job, webhook or record again
             executed      the money has moved: the key is completed as a success. The PSP is asked, and its refusal stands
             not_executed  it has not: the client may try again. Only when the PSP, asked just now, knows nothing of it
             dismiss       nothing moves. Not while the letter's key is in progress or unknown
  --version  of the letter as you have seen it, so that nobody decides about something else; by default the one it has now
  --psp-id   with executed: the PSP's id of the movement, if you know it and the PSP does not say
  --actor    who decides, for the audit trail; by default who is logged in

Exit code: 0 done, 2 refused or failed; the message says why.
`

// dlqDeps is what the command works with.
type dlqDeps struct {
	desk   *operator.Desk
	stdout io.Writer
}

// runDLQ works off dead letters from the command line, on the database and the PSP themselves: it needs no running server.
func runDLQ(ctx context.Context, args []string, d dlqDeps) error {
	command := ""
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	var do func(context.Context, []string, dlqDeps) error
	switch command {
	case "list":
		do = listLetters
	case "show":
		do = showLetter
	case "resolve":
		do = resolveLetter
	case "help", "--help", "-help", "-h":
		do = nil
	default:
		return errors.New("say dlq list, dlq show or dlq resolve; see reconciler dlq --help")
	}
	if do == nil || slices.ContainsFunc(args, asksForHelp) {
		_, err := io.WriteString(d.stdout, dlqHelp)
		return err
	}
	err := do(ctx, args, d)
	if postgres.Unavailable(err) {
		return fmt.Errorf("%w; is the database at DATABASE_URL up, and migrated by api migrate?", err)
	}
	return err
}

func listLetters(ctx context.Context, args []string, d dlqDeps) error {
	flags := newFlags("dlq list")
	status := flags.String("status", string(deadletters.OpenStatus), "")
	limit := flags.Int("limit", deadletters.DefaultPage, "")
	cursor := flags.String("cursor", "", "")
	asJSON := flags.Bool("json", false, "")
	if err := parseAll(flags, args, 0); err != nil {
		return err
	}
	f := deadletters.Filter{Status: deadletters.Status(*status), Limit: *limit}
	if f.Status != deadletters.OpenStatus && f.Status != deadletters.ResolvedStatus {
		return errors.New("--status must be open or resolved")
	}
	if f.Limit < 1 || f.Limit > deadletters.MaxPage {
		return fmt.Errorf("--limit must be from 1 to %d", deadletters.MaxPage)
	}
	if *cursor != "" {
		before, err := deadletters.ParseCursor(*cursor)
		if f.Before = &before; err != nil {
			return errors.New("--cursor must be one that an earlier list has ended with")
		}
	}
	page, err := d.desk.List(ctx, f)
	if err != nil {
		return err
	}
	if *asJSON {
		return printJSON(d.stdout, page)
	}
	return printPage(d.stdout, f.Status, page)
}

func showLetter(ctx context.Context, args []string, d dlqDeps) error {
	flags := newFlags("dlq show")
	asJSON := flags.Bool("json", false, "")
	if err := parseAll(flags, args, 1); err != nil {
		return err
	}
	id, err := letterID(flags.Arg(0))
	if err != nil {
		return err
	}
	c, err := d.desk.Show(ctx, id)
	if err != nil {
		return explainLetter(id, err)
	}
	if *asJSON {
		return printJSON(d.stdout, c)
	}
	return printCase(d.stdout, c)
}

func resolveLetter(ctx context.Context, args []string, d dlqDeps) error {
	flags := newFlags("dlq resolve")
	action := flags.String("action", "", "")
	reason := flags.String("reason", "", "")
	version := flags.Int("version", 0, "")
	pspID := flags.String("psp-id", "", "")
	actor := flags.String("actor", "", "")
	asJSON := flags.Bool("json", false, "")
	if err := parseAll(flags, args, 1); err != nil {
		return err
	}
	id, err := letterID(flags.Arg(0))
	if err != nil {
		return err
	}
	asked := operator.Decision{
		Letter: id, Version: clampVersion(*version), Action: deadletters.Action(*action), Reason: *reason, Actor: *actor, PSPID: *pspID,
	}
	if asked.Actor == "" {
		asked.Actor = loginName()
	}
	given := false
	flags.Visit(func(f *flag.Flag) { given = given || f.Name == "version" })
	if !given {
		c, err := d.desk.Show(ctx, id)
		if err != nil {
			return explainLetter(id, err)
		}
		asked.Version = c.Version
	}
	if err := checkDecision(asked); err != nil {
		return err
	}
	ruling, err := d.desk.Resolve(ctx, asked)
	if err != nil {
		return explainLetter(id, err)
	}
	switch v := ruling.(type) {
	case operator.Refused:
		return fmt.Errorf("refused: %s See reconciler dlq show %s", v.Detail, id)
	case operator.Done:
		if *asJSON {
			return printJSON(d.stdout, v.Entry)
		}
		_, err = fmt.Fprintf(d.stdout, "Resolved %s as %s, by %s.\n", id, asked.Action, plain(asked.Actor))
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
	return fmt.Errorf("%w; see reconciler dlq --help", errors.Join(wrong...))
}

// clampVersion keeps a number that no letter can have one that no letter can have.
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

func letterID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return uuid.UUID{}, errors.New("name a letter by its id; reconciler dlq list shows them")
	}
	return id, nil
}

func explainLetter(id uuid.UUID, err error) error {
	if errors.Is(err, deadletters.ErrNoLetter) {
		return fmt.Errorf("there is no dead letter %s; reconciler dlq list shows those that there are", id)
	}
	return err
}

func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parseAll takes flags before, between and behind the arguments, of which there must be as many as wanted.
func parseAll(flags *flag.FlagSet, args []string, wanted int) error {
	var positional []string
	for {
		if err := flags.Parse(args); err != nil {
			return fmt.Errorf("%w; see reconciler dlq --help", err)
		}
		if flags.NArg() == 0 {
			break
		}
		positional, args = append(positional, flags.Arg(0)), flags.Args()[1:]
	}
	if len(positional) > wanted {
		return fmt.Errorf("argument %q is not known; see reconciler dlq --help", positional[wanted])
	}
	// So that flags.Arg finds them.
	return flags.Parse(append([]string{"--"}, positional...))
}

func printJSON(w io.Writer, v any) error {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", raw)
	return err
}
