package llmrun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/calib"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/build"
	"github.com/llmrun/llmrun/internal/ended"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/store/w8a8"
)

// CalibrationSuffix is the suffix that [Calibrate] appends to a model's name for its
// calibration file.
const CalibrationSuffix = w8a8.Suffix

// W8A8 selects matmuls as NPUs compute them; see [LabOptions].W8A8.
type W8A8 struct {
	// Calibration is the file that Calibrate wrote. "" means the file beside the model, in
	// Options.FS if that is set.
	Calibration string
	// Outliers is the fraction of matrix inputs with an outlier path, those with the most
	// important outliers first. 0 means 0.15, which llm.npu found sufficient, plus the inputs
	// that would lose more than 2 of their 8 bits; 1 means all.
	Outliers float64
	// NoOutlierPath turns the outlier path off; outliers are clipped.
	NoOutlierPath bool
}

// CalibrateOptions configure Calibrate.
type CalibrateOptions struct {
	FS       fs.FS  // file system of the model; nil means the operating system's
	To       string // output file; "" means beside the model, which requires FS to be nil
	Threads  int    // 0 = one for each performance core
	Adapters []string
	// OutlierFraction is the fraction of an input's elements that may exceed its scale. 0
	// means 0.003, or the equivalent of 4 channels if that is more, or up to 0.1 if many
	// elements exceed all others by far. Fewer outliers mean a coarser scale for all other
	// elements.
	OutlierFraction float64
	// StoredFraction is the fraction of inputs for which float columns are stored. Only those
	// can have an outlier path. 0 means all, which takes as much space as the model.
	StoredFraction float64
	// Progress, if set, is called with the number of processed tokens; a long text, and one
	// with many outliers, is processed twice. Afterwards Written, if set, is called with the
	// number of column bytes written.
	Progress, Written func(Progress)
}

// Calibration is the result of Calibrate.
type Calibration struct {
	Path   string             `json:"path"`
	Bytes  int64              `json:"bytes"`
	Tokens int                `json:"tokens"`
	Inputs []CalibrationInput `json:"inputs"` // those with the most important outliers first
}

// CalibrationInput is the calibration of the input of one or more matrices.
type CalibrationInput struct {
	Name        string  `json:"name"` // of the first matrix
	Channels    int     `json:"channels"`
	Scale       float64 `json:"scale"`      // of one integer step
	Max         float64 `json:"max"`        // largest magnitude
	Importance  float64 `json:"importance"` // Max relative to 127 steps
	Loss        float64 `json:"loss"`       // error ratio without an outlier path
	Outliers    float64 `json:"outliers"`   // fraction of the elements
	Ever        int     `json:"ever"`       // channels with at least one outlier
	Hot         int     `json:"hot"`        // channels whose columns stay in memory
	HotFraction float64 `json:"hot_share"`  // fraction of the outliers that are in hot channels
	Stored      bool    `json:"stored"`     // the file contains the float columns
}

// Calibrate runs the model at path over a text and measures how to quantize its activations
// to 8 bits with one scale per input, and which values exceed that scale. The result is the
// calibration file of [LabOptions].W8A8. The file is written completely or not at all.
func Calibrate(ctx context.Context, path, text string, o CalibrateOptions) (done Calibration, err error) {
	defer ended.Say(ctx, &err)
	if err := errors.Join(o.validate(), refuseNamed(o.Adapters)); err != nil {
		return done, err
	}
	f, err := (&Options{FS: o.FS, Adapters: o.Adapters}).openChanged(path)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	ids, err := textTokens(f, text)
	if err != nil {
		return done, err
	}
	index, err := exec.MeasureOutliers(ctx, f, ids, exec.Options{Exact: true, Threads: o.Threads},
		exec.OutlierOptions{Made: build.Name(), Fraction: o.OutlierFraction, Progress: progressFunc(o.Progress)})
	if err != nil {
		return done, err
	}
	if done.Path = o.To; done.Path == "" {
		done.Path = path + CalibrationSuffix
	}
	stored := map[string]bool{}
	for in, keep := range exec.OutlierFraction(defaultFraction(o.StoredFraction, 1)).Of(index.Inputs) {
		stored[in.Name] = keep
		done.Inputs = append(done.Inputs, newCalibrationInput(in, keep))
	}
	keep := func(in *w8a8.Input) bool { return stored[in.Name] }
	if err := calib.WriteCalibration(ctx, f, vfs.OS(), done.Path, index, keep, progressFunc(o.Written)); err != nil {
		return done, err
	}
	info, err := vfs.OS().Stat(done.Path)
	done.Bytes, done.Tokens = info.Size, index.Tokens
	return done, err
}

// validate returns an ErrOptions for an option that is out of range or missing.
func (o *CalibrateOptions) validate() error {
	if err := checkFraction("OutlierFraction", o.OutlierFraction); err != nil {
		return err
	}
	if err := checkFraction("StoredFraction", o.StoredFraction); err != nil {
		return err
	}
	if o.To == "" && o.FS != nil {
		return fmt.Errorf("%w: To is empty; it must name a file if FS is set", ErrOptions)
	}
	return nil
}

func newCalibrationInput(in *w8a8.Input, stored bool) CalibrationInput {
	return CalibrationInput{
		Name: in.Name, Channels: in.Cols, Scale: float64(in.Scale), Max: float64(in.Max),
		Importance: in.Importance(), Loss: float64(in.ClippedErrorRatio),
		Outliers: float64(in.Outliers) / float64(in.Elements), Ever: len(in.Channels),
		Hot: in.Hot, HotFraction: in.HotFraction(), Stored: stored,
	}
}

// textTokens returns the tokens of a calibration text.
func textTokens(f *modelfile.Files, text string) ([]int32, error) {
	t, err := f.Tokenizer()
	if errors.Is(err, modelfile.ErrNoTokenizer) {
		return nil, fmt.Errorf("%w: calibration needs one", ErrNoTokenizer)
	}
	if err != nil {
		return nil, err
	}
	ids, err := (&Tokenizer{t}).Encode(text, EncodeOptions{})
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: the calibration text is empty", ErrOptions)
	}
	return ids, nil
}

func checkFraction(name string, v float64) error {
	if !(v >= 0 && v <= 1) {
		return fmt.Errorf("%w: %s is %g; it must be between 0 and 1", ErrOptions, name, v)
	}
	return nil
}

// defaultFraction returns v, or zero if v is 0.
func defaultFraction(v, zero float64) float64 {
	if v == 0 {
		return zero
	}
	return v
}

// validate returns an ErrOptions for options that conflict with W8A8.
func (w *W8A8) validate(o *Options) error {
	if w == nil {
		return nil
	}
	if o.Quantize != "" || o.Exact {
		return fmt.Errorf("%w: Lab.W8A8 quantizes weights and activations itself; it excludes Quantize and Exact", ErrOptions)
	}
	if o.keepsBeside() {
		return fmt.Errorf("%w: Lab.W8A8 needs a calibration with the adapters; it excludes AdaptersBeside and Adapters with names", ErrOptions)
	}
	return checkFraction("Lab.W8A8.Outliers", w.Outliers)
}

// open opens the model's calibration and makes f present its weights in 8 bits. fsys is the
// file system of the model.
func (w *W8A8) open(ctx context.Context, f *modelfile.Files, fsys vfs.FS) (*exec.W8A8, error) {
	path := w.Calibration
	if path == "" {
		path = f.Path + CalibrationSuffix
	} else {
		fsys = vfs.OS()
	}
	c, err := w8a8.Open(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w (llmrun calibrate writes it)", err)
	}
	if err != nil {
		return nil, err
	}
	if err := calib.UsePerRowInt8(ctx, f, c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	perTensor := &exec.W8A8{Calibration: c, Outliers: exec.DefaultOutlierChoice}
	switch {
	case w.NoOutlierPath:
		perTensor.Outliers = exec.OutlierFraction(0)
	case w.Outliers != 0:
		perTensor.Outliers = exec.OutlierFraction(w.Outliers)
	}
	return perTensor, nil
}

// OutlierUse counts what the outlier paths of W8A8 computed.
type OutlierUse struct {
	Tokens   int64 `json:"tokens"`         // rows of inputs that have an outlier path
	Marked   int64 `json:"marked"`         // rows that had outliers
	Outliers int64 `json:"outliers"`       // outlier elements
	Hot      int64 `json:"hot"`            // columns found in memory
	Fetched  int64 `json:"fetched"`        // columns read from flash
	Read     int64 `json:"read_bytes"`     // bytes of the columns read from flash
	Resident int64 `json:"resident_bytes"` // bytes of the columns that stay in memory
	All      int64 `json:"all_bytes"`      // bytes of all columns with an outlier path, if they were in memory
}

// OutlierUse returns what the outlier paths of all sessions computed so far.
func (e *Engine) OutlierUse() OutlierUse { return OutlierUse(e.model.OutlierStats()) }
