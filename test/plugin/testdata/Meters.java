import com.sun.tools.attach.VirtualMachine;
import java.util.Arrays;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Meters PID NAME...: the counts of a broker's meters over all topics, one a line. */
public class Meters {
    public static void main(String[] args) throws Exception {
        VirtualMachine broker = VirtualMachine.attach(args[0]);
        try (JMXConnector to = JMXConnectorFactory.connect(new JMXServiceURL(broker.startLocalManagementAgent()))) {
            MBeanServerConnection beans = to.getMBeanServerConnection();
            for (String name : Arrays.copyOfRange(args, 1, args.length)) {
                System.out.println(beans.getAttribute(new ObjectName("kafka.server:type=BrokerTopicMetrics,name=" + name), "Count"));
            }
        } finally {
            broker.detach();
        }
    }
}
