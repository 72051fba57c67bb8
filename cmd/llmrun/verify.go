package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:     "verify",
		Synopsis: "FILE.pack... [--json]",
		Summary:  "check the checksums of packs",
		About: `Reads every byte of packs and compares the checksums. The error names a damaged pack and the offset of the first fault, and the exit code is 4.

--json prints {"verified":[{"name":"…","bytes":…}]}, with error for a damaged pack, and the number of bytes read until the fault.`,
		Examples: []cli.Example{
			{Line: "llmrun verify model.pack", Purpose: "after copying it to another disk"},
			{Line: "llmrun verify *.pack", Purpose: "all packs of a directory"},
			{Line: "llmrun verify model.pack && rm model.gguf", Purpose: "before deleting the source model"},
		},
		Prepare: func(f *cli.FlagSet) cli.Action {
			v := &verifyFlags{}
			f.Group("Output")
			f.Toggle(&v.json, "json", "print one JSON object")
			return v.run
		},
	}
}

// verifyFlags are the flags of verify.
type verifyFlags struct{ json bool }

// run checks all files, and continues after a damaged one.
func (v *verifyFlags) run(ctx context.Context, s *cli.Streams, files []string) error {
	if len(files) == 0 {
		return cli.Usagef("give the packs to verify")
	}
	ctx, stop := cli.Interruptible(ctx)
	defer stop()
	all := verification{json: v.json}
	for _, name := range files {
		read := int64(0)
		bar := cli.NewMeter(s, "checking", cli.FormatBytes)
		err := llmrun.Verify(ctx, name, func(p llmrun.Progress) {
			read = p.Done
			bar.Update(p.Done, p.Total)
		})
		bar.Finish()
		if ctx.Err() != nil {
			return cli.Interruption(ctx, err)
		}
		if err == nil && !v.json {
			fmt.Fprintf(s.Out, "%s: sound\n", name)
		}
		all.add(name, read, err)
	}
	return all.end(s)
}

// verified is the result for one file or session.
type verified struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Error string `json:"error,omitempty"`
}

// A verification collects the results for several files or sessions.
type verification struct {
	json bool
	list []verified
	err  error
}

func (v *verification) add(name string, size int64, err error) {
	one := verified{Name: name, Bytes: size}
	if err != nil {
		one.Error = err.Error()
	}
	v.list = append(v.list, one)
	v.err = errors.Join(v.err, err)
}

// end prints the JSON object of --json and returns the errors.
func (v *verification) end(s *cli.Streams) error {
	if !v.json {
		return v.err
	}
	if v.list == nil {
		v.list = []verified{} // an empty list rather than null
	}
	return errors.Join(v.err, s.Out.WriteJSON(struct {
		Verified []verified `json:"verified"`
	}{v.list}))
}
