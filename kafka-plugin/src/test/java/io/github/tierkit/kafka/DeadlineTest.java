package io.github.tierkit.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class DeadlineTest {
    @Test
    void aPastOneHasPassed() throws InterruptedException {
        for (long ms : new long[] {0, 1, -1, -1000, Long.MIN_VALUE / 2}) {
            assertTrue(ms > 0 || Deadline.in(ms).passed(), ms + " ms");
            assertTrue(Deadline.in(ms).readMs() > 0 && Deadline.in(ms).connectMs() > 0, "0 would be no timeout at all");
            assertFalse(ms <= 0 && Deadline.in(ms).sleep(1));
        }
    }

    @Test
    void stepsFitIntoIt() {
        assertEquals(7500, Deadline.in(30_000).readMs());
        assertEquals(1875, Deadline.in(30_000).connectMs());
        assertEquals(2500, Deadline.in(3_600_000, 2500).readMs());
        assertEquals(150, Deadline.in(600, 2500).readMs());
        assertEquals(2000, Deadline.in(3_600_000).part(30_000, 2000).readMs());
        assertTrue(Deadline.in(600).part(30_000, 30_000).readMs() <= 150, "a part is no longer than the whole");
    }

    @Test
    void anInterruptEndsASleep() {
        for (long ms : new long[] {0, 60_000}) {
            Thread.currentThread().interrupt();
            assertThrows(InterruptedException.class, () -> Deadline.in(ms).sleep(60_000));
        }
    }
}
