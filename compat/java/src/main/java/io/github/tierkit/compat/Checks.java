package io.github.tierkit.compat;

final class Checks {
    private Checks() {
    }

    static int nonNegative(final int value, final String what) {
        if (value < 0) {
            throw new IllegalArgumentException(what + " must be non-negative, " + value + " given");
        }
        return value;
    }

    static int positive(final int value, final String what) {
        if (value <= 0) {
            throw new IllegalArgumentException(what + " must be positive, " + value + " given");
        }
        return value;
    }
}
