// Package jobs decides when long work runs: until an hour of the day, and with pauses while a machine runs on its
// battery or is too hot. What a job computes, and what of it survives, is [llmrun.Engine.Summarize].
//
// Everything that is read of the system comes from a file system like Linux's /sys, and time from functions, so that
// tests state both.
package jobs
