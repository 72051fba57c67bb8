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
		Summary:  "read whole packs and compare their checksums",
		About: `Reads every byte of packs and compares it with its checksum. A pack that is damaged is named, with the offset of the first fault, and the exit code is 1.

--json prints {"verified":[{"name":"…","bytes":…}]}, with error where one is damaged, and the bytes that were read until then.`,
		Examples: []cli.Example{
			{Line: "llmrun verify model.pack", Purpose: "after copying it to another disk"},
			{Line: "llmrun verify *.pack", Purpose: "all packs of a directory"},
			{Line: "llmrun verify model.pack && rm model.gguf", Purpose: "before deleting what it was made from"},
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

// run checks each of the files, also after one that is damaged.
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

// verified is the outcome of verifying one thing.
type verified struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Error string `json:"error,omitempty"`
}

// A verification gathers what verifying several things says. It goes on behind
// one that is damaged, and fails at the end.
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

// end prints the JSON object, if that was asked for, and returns what failed.
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
