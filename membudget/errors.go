package membudget

import (
	"errors"
	"fmt"
)

// The kinds of error, for errors.Is. Errors of a caller's context are returned as they are.
var (
	// ErrTooLarge is a need that the budget can never satisfy, however long one waits: the setting memory.budget.bytes must be raised. It says nothing
	// about the data: an object that does not fit is not corrupt.
	ErrTooLarge = errors.New("does not fit into memory.budget.bytes")
	// ErrClass is a class that the call does not take: a mistake of the program.
	ErrClass = errors.New("class cannot be used here")
)

// SizeError is the detail of ErrTooLarge.
type SizeError struct {
	What  string // what was asked for
	Need  int64  // bytes asked for
	Have  int64  // the most there can be at the present limit
	Limit int64  // the smallest memory.budget.bytes with which it fits
}

// Error names the setting and the value that it needs.
func (e *SizeError) Error() string {
	return fmt.Sprintf("%s is %d bytes and at most %d are possible: set memory.budget.bytes to %d or more", e.What, e.Need, e.Have, e.Limit)
}

// Is makes a SizeError match ErrTooLarge.
func (e *SizeError) Is(target error) bool { return target == ErrTooLarge }
