package backends

import "github.com/tierkit/tierkit/internal/settings"

// Setting documents one setting of a driver, by its full name below "storage.".
type Setting = settings.Setting

// Config holds the parsed values of one driver's settings: String, Int, Bytes, Bool, Duration, List, File and Secret by full name. A
// getter for a name that is not in the driver's table, or of another type, panics.
type Config = settings.Values

// Secret cannot be printed, logged or marshalled; Reveal returns it.
type Secret = settings.Secret

// NewSecret returns a Secret, for drivers that are opened from code rather than from settings.
func NewSecret(text string) Secret { return settings.NewSecret(text) }

// SettingType is the type of a Setting's value.
type SettingType = settings.Type

// The types of settings.
const (
	TypeString   = settings.TypeString
	TypeInt      = settings.TypeInt
	TypeBytes    = settings.TypeBytes
	TypeBool     = settings.TypeBool
	TypeDuration = settings.TypeDuration
	TypeList     = settings.TypeList
	TypeSecret   = settings.TypeSecret
	TypeFile     = settings.TypeFile
)
