//go:build !unix

package main

import "errors"

// beNice lowers the priority of the process.
func beNice() error {
	return errors.New("this system has no nice values; start /low llmrun does the same")
}
