import java.net.SocketException;
import py4j.DefaultGatewayServerListener;
import py4j.Py4JServerConnection;

/**
 * Sends answers to Python without delay, on the connections of threads that start after this.
 *
 * py4j writes an answer of more than 8 KB, such as the offset of a thousand partitions, in several
 * parts. Without this the last part waits until Python's side confirms the others, about 40 ms.
 */
public class PromptAnswers extends DefaultGatewayServerListener {
    public void connectionStarted(Py4JServerConnection connection) {
        try {
            connection.getSocket().setTcpNoDelay(true);
        } catch (SocketException closed) {
            // the thread has ended
        }
    }
}
