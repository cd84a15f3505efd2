package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"payonce/internal/cli"
	"payonce/internal/statement"
)

const statementHelp = `Usage: reconciler statement [--date DAY] [--account NAME] [--format table|csv|json] [--output FILE]

Compares the PSP's settlement files of one day (UTC) with our payments and refunds, and writes the differences. A difference is
called a break. The report also has both books side by side: what customers paid by the PSP's lines and by our books, and what
the PSP has booked, gross to net, with the sum of each type of line that we do not know.

  --date     YYYY-MM-DD, today or yesterday; yesterday by default. If the day is not over, the command compares the part that
             the PSP has published
  --account  a PSP account. Repeat the flag for several accounts. By default all accounts
  --format   table: for people, in 120 columns, with totals by kind, currency and age. csv: a line for each break, no books. json: the
             whole report
  --output   a file instead of the standard output. The file appears when it is complete, and only you can read it

Breaks are stored. If a later run finds a break again, the break keeps the time at which it was first seen. If a later run does
not find a break again, the break is marked as gone. So you may run a day as often as you like, but not twice at the same time.
A movement of ours that has no result yet, or that may be in a later settlement file, is pending and not a break. The reconciler
judges its day again when the movement has a result and the later files were compared.

  missing_here   the PSP moved money, and we have no such payment or refund, or another tenant has it
  missing_there  our payment or refund succeeded, and no settlement file that could have it has it
  amount, currency, status   both sides have the movement, with different values
  duplicate      the PSP moved money again for one of our payments or refunds, or the file has an id twice
  psp_id         our payment or refund succeeded, and the PSP has another id for it

Exit code: 0 no breaks, 1 breaks found, 2 the command line is wrong, or the command could not compare everything.
`

// StatementDeps is what Statement works with.
type StatementDeps struct {
	Deps[statement.Config]

	Stderr   io.Writer
	Terminal bool // Stderr is one: lines read are shown there, and rewritten in place
	Now      func() time.Time
}

// notReconciled is the exit code of a comparison that has come to no end: 1 says that there are breaks.
const notReconciled = 2

// Statement reconciles a day and writes its report. Breaks are statement.ErrBreaks, unless something else failed as
// well.
func Statement(ctx context.Context, args []string, d StatementDeps) error {
	if cli.AsksForHelp(args) {
		_, err := io.WriteString(d.Stdout, statementHelp)
		return err
	}
	asked, err := parseStatement(args)
	if err == nil {
		err = compare(ctx, asked, d)
	}
	if errors.Is(err, statement.ErrBreaks) || ctx.Err() != nil {
		return err
	}
	return cli.WithCode(notReconciled, err)
}

func compare(ctx context.Context, asked statementArgs, d StatementDeps) error {
	config, done, err := d.Open()
	if err != nil {
		return err
	}
	defer done()
	out, err := openReport(asked.output, d.Stdout)
	if err != nil {
		return err
	}
	defer out.discard()
	line := &progressLine{out: d.Stderr, now: d.Now}
	if d.Terminal {
		config.Progress = line.show
	}
	r, err := statement.New(config)
	if err != nil {
		return err
	}
	day, err := asked.day(ctx, r)
	if err != nil {
		return err
	}
	report, failure := r.Run(ctx, day, asked.accounts...)
	if d.Terminal {
		fmt.Fprint(d.Stderr, "\r\x1b[K") // The line is left empty for what comes next.
	}
	if len(report.Runs) == 0 || failure != nil && ctx.Err() != nil {
		return failure
	}
	err = r.Write(ctx, out, report, asked.format)
	if err == nil {
		err = out.publish()
	}
	if err = errors.Join(failure, err); err != nil {
		return err // breaks or not: not all is known
	}
	return report.Err()
}

// statementArgs is what the command line asks for.
type statementArgs struct {
	date     time.Time // zero: yesterday, or today
	today    bool
	accounts []string
	format   statement.Format
	output   string
}

func (a statementArgs) day(ctx context.Context, r *statement.Reconciler) (time.Time, error) {
	if !a.date.IsZero() {
		return a.date, nil
	}
	day, err := r.Yesterday(ctx)
	if a.today {
		day = day.AddDate(0, 0, 1)
	}
	return day, err
}

func parseStatement(args []string) (statementArgs, error) {
	a := statementArgs{format: statement.Table}
	flags := cli.NewFlags("reconciler statement")
	flags.Func("date", "", func(s string) (err error) {
		a.date, a.today = time.Time{}, s == "today"
		if a.today || s == "yesterday" {
			return nil
		}
		// The zero time is a day, too, and stands for none here.
		if a.date, err = time.Parse(time.DateOnly, s); err != nil || a.date.Year() < 1970 {
			return errors.New("want today, yesterday, or YYYY-MM-DD from 1970 on")
		}
		return nil
	})
	flags.Func("account", "", func(s string) error {
		if s == "" {
			return errors.New("want the name of a PSP account")
		}
		a.accounts = append(a.accounts, s)
		return nil
	})
	flags.Func("format", "", func(s string) error {
		a.format = statement.Format(s)
		if !slices.Contains([]statement.Format{statement.Table, statement.CSV, statement.JSON}, a.format) {
			return statement.ErrFormat
		}
		return nil
	})
	flags.StringVar(&a.output, "output", "", "")
	return a, cli.Parse(flags, args, 0)
}

// progressLine shows how far a statement is read, on one line of a terminal.
type progressLine struct {
	out     io.Writer
	now     func() time.Time
	current string // the statement that is being read
	began   time.Time
}

func (l *progressLine) show(p statement.Progress) {
	name := p.Account + " " + p.Day.Format(time.DateOnly)
	now := l.now()
	if name != l.current {
		l.current, l.began = name, now
	}
	rate := ""
	if took := now.Sub(l.began).Seconds(); took > 0 {
		rate = fmt.Sprintf(", %.0f lines/s", float64(p.Lines)/took)
	}
	state := ""
	if p.Done {
		state = "; comparing …"
		l.current = "" // the same statement, read again, begins from 0
	}
	fmt.Fprintf(l.out, "\r\x1b[K%s: %d lines%s%s", name, p.Lines, rate, state)
}

// reportFile is where a report goes: a file that gets its name when it is whole, or a stream.
type reportFile struct {
	io.Writer
	temporary *os.File // nil for a stream
	name      string
}

func openReport(name string, stdout io.Writer) (*reportFile, error) {
	if name == "" {
		return &reportFile{Writer: stdout}, nil
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("--output %s is not a regular file", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return nil, fmt.Errorf("open --output: %w", err)
	}
	return &reportFile{Writer: f, temporary: f, name: name}, nil
}

// publish gives the file its name.
func (f *reportFile) publish() error {
	if f.temporary == nil {
		return nil
	}
	err := f.temporary.Close()
	if err == nil {
		err = os.Rename(f.temporary.Name(), f.name)
	}
	if err != nil {
		return fmt.Errorf("publish report: %w", err)
	}
	return nil
}

// discard removes what was not published. What was published has another name by now.
func (f *reportFile) discard() {
	if f.temporary != nil {
		_ = f.temporary.Close()
		_ = os.Remove(f.temporary.Name())
	}
}
